"""Mail settings from one URL: what is taken, and what stops the process with a sentence that tells no password."""

import threading
from typing import Any

import pytest
from django.core.mail import EmailMessage

from chamber import mailing


@pytest.mark.parametrize(
    ("url", "given"),
    [
        ("", ("dummy", None, None, None, None)),
        ("smtp://mail", ("smtp", "mail", 25, False, False)),
        ("smtp+starttls://mail", ("smtp", "mail", 587, True, False)),
        ("smtps://ada:s%2Fecret@mail:4650", ("smtp", "mail", 4650, False, True)),
        ("file:///var/mail", ("filebased", None, None, None, None)),
    ],
)
def test_a_url_says_where_mail_goes(url: str, given: tuple[Any, ...]) -> None:
    found = mailing.settings_of(url)
    assert found["EMAIL_BACKEND"] == f"django.core.mail.backends.{given[0]}.EmailBackend"
    names = ("EMAIL_HOST", "EMAIL_PORT", "EMAIL_USE_TLS", "EMAIL_USE_SSL")
    assert tuple(found.get(name) for name in names) == given[1:]


@pytest.mark.parametrize(
    ("public_url", "hosts", "host"),
    [
        ("https://Gpus.example.org:8443", ["other.example.org"], "gpus.example.org"),
        ("", ["*", ".example.org", "gpus.example.org", "localhost"], "gpus.example.org"),
        ("", ["*", "localhost"], "localhost"),
        ("http://[2001:db8::7]", [], "[IPv6:2001:db8::7]"),
    ],
)
def test_mails_come_from_a_host_that_is_one_name(public_url: str, hosts: list[str], host: str) -> None:
    assert mailing.sender("", public_url, hosts) == f"Chamber <chamber@{host}>"


@pytest.mark.parametrize(
    "told", ["Acme <gpus@example.org>", "gpus@mailhost", '"GPUs, all" <gpus@[IPv6:::1]>']
)
def test_mails_come_from_whom_is_told(told: str) -> None:
    assert mailing.sender(told, "https://gpus.example.org", []) == told


@pytest.mark.parametrize("told", ["Chamber <gpus.example.org>", "Chamber", "a b@example.org", "@example.org"])
def test_a_sender_without_an_address_stops_with_a_sentence(told: str) -> None:
    with pytest.raises(SystemExit, match=r"CHAMBER_MAIL_FROM is .*allowed is an address"):
        mailing.sender(told, "", ["gpus.example.org"])


def test_signs_in_a_password_are_quoted() -> None:
    found = mailing.settings_of("smtps://ada%40acme:s%2Fecret@mail")
    assert (found["EMAIL_HOST_USER"], found["EMAIL_HOST_PASSWORD"]) == ("ada@acme", "s/ecret")


@pytest.mark.parametrize(
    "url",
    [
        "mail.example.org:25",
        "http://mail",
        "smtp://",
        "smtps://a:secret@mail:port",
        "file://host/x",
        "smtp://[x",
    ],
)
def test_what_is_no_mail_server_stops_with_a_sentence(url: str) -> None:
    with pytest.raises(SystemExit, match=r"CHAMBER_MAIL_URL .*allowed is") as stopped:
        mailing.settings_of(url)
    assert "secret" not in str(stopped.value)


def test_mails_do_not_pile_up_where_the_server_takes_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(mailing, "WAIT_AT_MOST", 3)
    monkeypatch.setattr(mailing, "send", lambda _: goes_on.wait(30))
    try:
        sent = [mailing.send_quietly(EmailMessage) for _ in range(5)]
        assert [each.done() for each in sent] == [False] * 3 + [True] * 2
        assert not sent[-1].result()
        assert "given up: 3 wait" in caplog.text
    finally:
        goes_on.set()
    assert mailing.settle()
    assert sent[0].result()
