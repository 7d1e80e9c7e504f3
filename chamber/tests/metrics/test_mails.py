"""Mails on /metrics: what the mail server took, what it did not, and what was given up."""

from collections.abc import Iterator

import pytest
from django.core.mail import EmailMessage
from django.test import Client
from pytest_django.fixtures import Settings

from chamber import mailing
from chamber.metrics import mails
from chamber.tests import mail_servers
from chamber.tests.metrics.test_metrics import scrape
from rig import servers


@pytest.fixture(autouse=True)
def _nothing_was_counted(settings: Settings) -> Iterator[None]:
    settings.REDIS = ""
    mails.counts.forget()
    yield
    mails.counts.forget()


def told() -> dict[str, float]:
    [family] = mails.read()
    return {sample.labels["result"]: sample.value for sample in family.samples}


def named(settings: Settings, url: str) -> None:
    for name, value in {"EMAIL_FILE_PATH": None, **mailing.settings_of(url)}.items():
        setattr(settings, name, value)


def mail() -> EmailMessage:
    return EmailMessage("Hello", "there", "chamber@example.org", ["ada@example.org"])


def test_what_did_not_happen_yet_is_told_as_none() -> None:
    assert told() == {"sent": 0, "refused": 0, "given-up": 0}


def test_each_is_counted_by_what_became_of_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with mail_servers.running() as server:
        named(settings, server.url)
        assert mailing.send(mail())
    with mail_servers.running({"RCPT": "550 5.1.1 no such person"}) as server:
        named(settings, server.url)
        assert not mailing.send(mail())
        assert (
            f"could not be sent by 127.0.0.1:{server.port}: it answers 550 5.1.1 no such person."
            in caplog.text
        )
    port = servers.free_port()
    named(settings, f"smtp://127.0.0.1:{port}")
    assert not mailing.send(mail())
    assert f"could not be sent by 127.0.0.1:{port}: Connection refused." in caplog.text
    monkeypatch.setattr(mailing, "WAIT_AT_MOST", 0)
    mailing.send_quietly(mail)
    assert told() == {"sent": 1, "refused": 2, "given-up": 1}


@pytest.mark.django_db
def test_they_stand_on_the_page(client: Client) -> None:
    mails.count(mails.MailResult.REFUSED)
    assert scrape(client)["chamber_mails_total", (("result", "refused"),)] == 1


@pytest.mark.redis
def test_of_a_redis_that_is_away_nothing_is_told_and_nothing_is_lost(settings: Settings) -> None:
    layer = {**settings.CHANNEL_LAYERS["default"], "CONFIG": {"prefix": "test"}}
    settings.CHANNEL_LAYERS = {"default": layer}
    with servers.redis() as running:
        settings.REDIS = running.url
        mails.count(mails.MailResult.REFUSED)
        assert told()["refused"] == 1
        running.stop()
        mails.count(mails.MailResult.REFUSED)
        assert told() == {}
        running.start()
        assert told()["refused"] in {1, 2}, "what Redis lost begins at zero again"
