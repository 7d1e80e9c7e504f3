"""`chamber reencrypt` and `chamber remove-factors`: for who has the server's console."""

import smtplib
from typing import NoReturn

import pytest
from django.core import mail
from pytest_django.fixtures import Settings

from chamber import encrypted
from chamber.encrypted import By
from chamber.encryption import Cipher
from chamber.factors.codes import use_code
from chamber.factors.reading import has_factor
from chamber.models import User
from chamber.tests.cli.conftest import Run
from chamber.tests.factors.conftest import SECRET, with_app
from chamber.tests.factors.devices import code_of
from teams.models import AuditEvent
from teams.tests.factories import actor
from workloads.credentials import keys
from workloads.credentials.actions import create_credential
from workloads.models import CredentialKind

NEW = "a-new-key-that-an-operator-made-9876543210"
OTHER = "another-key-that-nobody-gave-to-it-0123456789"


def test_stored_secrets_get_the_newest_key(run: Run, ada: User, settings: Settings) -> None:
    with_app(ada)
    settings.ENCRYPTION_KEYS = [NEW]
    assert encrypted.secrets() == {By.OLDER: 2}
    assert run("reencrypt").stdout == "2 secrets encrypted anew; 0 secrets had the newest key already.\n"
    assert run("reencrypt").stdout == "0 secrets encrypted anew; 2 secrets had the newest key already.\n"
    settings.SECRET_KEY = OTHER
    assert use_code(ada, code_of(SECRET)), "the key of before is needed no more"


def test_secrets_that_cannot_be_read_are_left_and_told(run: Run, ada: User, settings: Settings) -> None:
    with_app(ada)
    settings.SECRET_KEY = OTHER
    result = run("reencrypt")
    assert result.exit_code == 1
    assert "2 secrets cannot be read" in result.stderr
    assert encrypted.secrets() == {By.UNKNOWN: 2}


def test_credentials_get_the_newest_key_in_parts_and_go_on_where_it_was_stopped(
    run: Run, ada: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CREDENTIALS_KEYS = [OTHER]
    rows = [
        create_credential(by=actor(ada), name=f"t{n}", kind=CredentialKind.TOKEN, content={"token": f"v{n}"})
        for n in range(5)
    ]
    settings.CREDENTIALS_KEYS = [NEW, OTHER]
    monkeypatch.setattr(encrypted, "AT_ONCE", 2)
    assert encrypted.credentials() == {By.OLDER: 5}
    real, left = Cipher.encrypt, [3]

    def stopped(cipher: Cipher, text: str) -> str:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return real(cipher, text)

    with monkeypatch.context() as patched:
        patched.setattr(Cipher, "encrypt", stopped)
        run("reencrypt")
    assert encrypted.credentials() == {By.NEWEST: 3, By.OLDER: 2}
    assert run("reencrypt").stdout.splitlines()[1] == (
        "2 credentials encrypted anew; 3 credentials had the newest key already."
    )
    settings.CREDENTIALS_KEYS = [NEW]
    for n, row in enumerate(rows):
        row.refresh_from_db()
        assert keys.opened(row) == {"token": f"v{n}"}


def test_credentials_that_cannot_be_read_are_left_and_told(run: Run, ada: User, settings: Settings) -> None:
    settings.CREDENTIALS_KEYS = [OTHER]
    create_credential(by=actor(ada), name="hf", kind=CredentialKind.TOKEN, content={"token": "v"})
    settings.CREDENTIALS_KEYS = [NEW]
    result = run("reencrypt")
    assert result.exit_code == 1
    assert "1 credential cannot be read" in result.stderr


def test_the_console_lets_the_last_admin_in(run: Run, ada: User) -> None:
    with_app(ada)
    assert run("remove-factors", "ada").stdout == "1 second factor of ada removed; all sessions are ended.\n"
    assert not has_factor(ada)
    assert AuditEvent.objects.get(action="person.factors-reset").actor == "console"
    assert run("remove-factors", "ada").exit_code == 5
    assert run("remove-factors", "nobody").exit_code == 3


def test_who_lost_factors_at_the_console_is_told_by_mail(
    run: Run, ada: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_app(ada)
    settings.MAIL, settings.PUBLIC_URL = True, "https://gpus.example.org"
    assert run("remove-factors", "ada").exit_code == 0
    (sent,) = mail.outbox
    assert (sent.to, sent.subject) == ([ada.email], "The second factors of your account were removed")
    assert "Who has the server's console removed 1 second factor of yours" in str(sent.body)
    assert "gpus.example.org" in str(sent.body)

    def refuse(message: object) -> NoReturn:
        raise smtplib.SMTPServerDisconnected("gone")

    monkeypatch.setattr("django.core.mail.EmailMultiAlternatives.send", refuse)
    with_app(User.objects.get(pk=ada.pk))
    result = run("remove-factors", "ada")
    assert (result.exit_code, "ada could not be told by mail" in result.stderr) == (0, True)
