"""What the doctor says of the mail server: looked at as a mail would be sent, up to the sender, and none is."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from chamber import mailing
from chamber.doctor import mail
from chamber.doctor.examination import CHECKS
from chamber.doctor.finding import DoctorFinding, Fact
from chamber.tests import mail_servers
from chamber.tests.doctor.test_address import certificate, served_by
from rig import servers

Named = Callable[[str], None]


@pytest.fixture
def named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Named:
    """Name the mail server."""
    monkeypatch.setattr(mail, "PATIENCE_SECONDS", 60)  # however slow the machine is
    settings.DEFAULT_FROM_EMAIL = "Chamber <chamber@example.org>"

    def name(url: str) -> None:
        settings.MAIL = bool(url)
        for setting, value in {"EMAIL_FILE_PATH": None, **mailing.settings_of(url)}.items():
            setattr(settings, setting, value)

    return name


def only() -> DoctorFinding | Fact:
    [found] = mail.mail()
    return found


def problem() -> tuple[str, str]:
    found = only()
    assert isinstance(found, DoctorFinding), found
    assert found.advice.endswith("Until then links are not mailed, but shown to organisation admins.")
    return found.problem, found.advice.split(". ")[0]


def test_the_doctor_looks_at_it() -> None:
    assert mail.mail in [check.look for check in CHECKS]


def test_a_server_that_takes_mails_is_named_with_the_sender_and_is_sent_none(named: Named) -> None:
    with mail_servers.running() as server:
        named(server.url.replace("//", "//ada:s%2Fecret@"))
        found = only()
    assert found == Fact(f"The mail server 127.0.0.1:{server.port} takes mails from chamber@example.org.")
    assert mail_servers.signed_in_as(server.told) == ("ada", "s/ecret")
    assert [line.split(":")[0] for line in server.told[-3:]] == ["mail FROM", "rset", "quit"]


def test_without_a_server_links_are_shown(named: Named) -> None:
    named("")
    assert only() == Fact("No mail server is named (CHAMBER_MAIL_URL): links are shown instead of mailed.")


def test_a_server_that_is_away(named: Named) -> None:
    port = servers.free_port()
    named(f"smtp://127.0.0.1:{port}")
    assert problem() == (
        f"The mail server 127.0.0.1:{port} takes no mails: Connection refused.",
        "Start it, or correct its address in CHAMBER_MAIL_URL",
    )


@pytest.mark.parametrize(
    ("word", "answer", "advice"),
    [
        ("AUTH", "535 5.7.8 wrong password", "Correct user and password in CHAMBER_MAIL_URL"),
        ("MAIL", "553 5.7.1 not owned by ada", "Give an address that it takes in CHAMBER_MAIL_FROM"),
    ],
)
def test_what_a_server_refuses_is_told_in_its_words(
    named: Named, word: str, answer: str, advice: str
) -> None:
    with mail_servers.running({word: answer}) as server:
        named(server.url.replace("//", "//ada:secret@"))
        assert problem() == (
            f"The mail server 127.0.0.1:{server.port} takes no mails: it answers {answer}.",
            advice,
        )


def test_a_server_without_encryption_that_is_asked_for_it(named: Named) -> None:
    with mail_servers.running() as server:
        named(server.url.replace("smtp:", "smtp+starttls:"))
        said, advice = problem()
    assert said.endswith("takes no mails: STARTTLS extension not supported by server.")
    assert advice.startswith("Correct how CHAMBER_MAIL_URL begins")


def test_a_server_whose_certificate_is_not_believed(
    named: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path, days=30)
    with mail_servers.running(secure=served_by(file)) as server:
        named(server.url.replace("smtp:", "smtps:"))
        said, advice = problem()
        assert said.endswith("takes no mails: certificate verify failed: self-signed certificate.")
        assert advice.startswith("Correct its name in CHAMBER_MAIL_URL, or name its authority's certificate")
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert isinstance(only(), Fact)


def test_a_server_that_speaks_no_tls_and_is_spoken_to_in_it(named: Named) -> None:
    with mail_servers.running() as server:
        named(server.url.replace("smtp:", "smtps:"))
        _, advice = problem()
    assert advice.startswith("Correct how CHAMBER_MAIL_URL begins")


def test_a_folder_for_mails_can_be_written(named: Named, tmp_path: Path) -> None:
    named(f"file://{tmp_path}/mails")
    assert only() == Fact(f"Mails are written into the folder {tmp_path}/mails; nothing sends them.")
    (tmp_path / "file").touch()
    named(f"file://{tmp_path}/file/mails")
    found = only()
    assert isinstance(found, DoctorFinding)
    assert found.problem == f"No mail can be written into {tmp_path}/file/mails."
