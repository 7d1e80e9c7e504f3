"""`chamber reencrypt` and `chamber remove-factors`: for who has the server's console."""

from pytest_django.fixtures import Settings

from chamber import encrypted
from chamber.encrypted import By
from chamber.factors.codes import use_code
from chamber.factors.reading import has_factor
from chamber.models import User
from chamber.tests.cli.conftest import Run
from chamber.tests.factors.conftest import SECRET, with_app
from chamber.tests.factors.devices import code_of
from teams.models import AuditEvent

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


def test_the_console_lets_the_last_admin_in(run: Run, ada: User) -> None:
    with_app(ada)
    assert run("remove-factors", "ada").stdout == "1 second factor of ada removed; all sessions are ended.\n"
    assert not has_factor(ada)
    assert AuditEvent.objects.get(action="person.factors-reset").actor == "console"
    assert run("remove-factors", "ada").exit_code == 5
    assert run("remove-factors", "nobody").exit_code == 3
