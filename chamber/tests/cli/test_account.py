"""`chamber login`, `logout`, `whoami`, `token`: what is kept where, and what becomes of it."""

import json
import stat
from collections.abc import Callable

import pytest

from chamber.cli import config
from chamber.models import ApiToken, Scope, User
from chamber.tests.cli.conftest import PASSWORD, SERVER, Run
from chamber.tests.factors.conftest import SECRET, with_app
from chamber.tests.factors.devices import code_of
from chamber.tokens import create_token
from teams.actors import Via

LOGIN = ("login", "--username", "ada", "--password-stdin")


def test_login_keeps_a_token_that_only_its_owner_can_read(run: Run, ada: User) -> None:
    result = run(*LOGIN, stdin=f"{PASSWORD}\n")

    assert result.exit_code == 0
    assert result.stdout == f"Signed in to {SERVER} as ada; the token is valid for 90 days.\n"
    kept = json.loads(config.path().read_text())
    assert ApiToken.objects.get().token_hash == ApiToken.hash_of(kept["token"])
    assert PASSWORD not in config.path().read_text()
    assert stat.S_IMODE(config.path().stat().st_mode) == 0o600


def test_a_token_of_the_page_is_kept_and_revoked_like_one_of_ones_own(run: Run, ada: User) -> None:
    token, secret = create_token(
        user=ada, name="laptop", scope=Scope.SUBMIT, days=30, team=None, via=Via.PAGE
    )
    result = run("login", "--with-token", stdin=f" {secret} \n")
    assert (result.exit_code, result.stdout) == (0, f"Signed in to {SERVER} as ada with the token laptop.\n")
    assert run("whoami", "-o", "name").stdout == "ada\n"
    assert run("logout").exit_code == 0
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_what_means_nothing_beside_a_token_is_named(run: Run, ada: User) -> None:
    secret = create_token(user=ada, name="laptop", scope=Scope.READ, days=1)[1]
    result = run("login", "--with-token", "--scope", "read", "--days", "90", stdin=f"{secret}\n")
    assert result.exit_code == 0
    assert result.stderr == "Ignored with --with-token, whose token has them already: --scope, --days.\n"
    assert run("login", "--with-token", stdin=f"{secret}\n").stderr == ""


@pytest.mark.parametrize(("text", "status"), [("\n", 2), ("chb_wrong\n", 4), ("chb_\u00e9\n", 2)])
def test_a_token_that_is_none_is_not_kept(run: Run, ada: User, text: str, status: int) -> None:
    run(*LOGIN, stdin=f"{PASSWORD}\n")
    before = config.path().read_text()
    assert run("login", "--with-token", stdin=text).exit_code == status
    assert config.path().read_text() == before


def test_login_asks_for_what_is_not_given(run: Run, ada: User) -> None:
    result = run("login", stdin=f"ada\n{PASSWORD}\n")

    assert result.exit_code == 0
    assert PASSWORD not in result.output


def test_a_wrong_password_is_not_allowed_and_keeps_the_former_sign_in(run: Run, ada: User) -> None:
    run(*LOGIN, stdin=f"{PASSWORD}\n")
    before = config.path().read_text()

    result = run(*LOGIN, stdin="wrong\n")

    assert result.exit_code == 4
    assert result.stderr == (
        "Error: The user name and the password do not go together. Who signs in by an identity provider makes a token "
        f"on {SERVER}/tokens/ and keeps it by `chamber login --with-token`.\n"
    )
    assert config.path().read_text() == before


def test_too_many_tries_say_how_long_to_wait(run: Run, ada: User) -> None:
    for _ in range(10):
        run(*LOGIN, stdin="wrong\n")

    result = run(*LOGIN, stdin=f"{PASSWORD}\n")

    assert result.exit_code == 6
    assert "Too many attempts to sign in." in result.stderr
    assert "Try again in" in result.stderr


def test_whoami_shows_user_token_and_roles(run: Run, ada: User) -> None:
    run(*LOGIN, stdin=f"{PASSWORD}\n")

    result = run("whoami")

    assert result.exit_code == 0
    assert "researcher of nlp" in result.stdout
    assert "scope admin" in result.stdout
    assert SERVER in result.stdout


def test_logout_revokes_and_forgets(run: Run, ada: User) -> None:
    run(*LOGIN, "--scope", "read", stdin=f"{PASSWORD}\n")

    result = run("logout")

    assert result.exit_code == 0
    assert ApiToken.objects.get().revoked_at is not None
    assert not config.path().exists()
    assert run("whoami").exit_code == 4
    assert run("logout").stdout == "You were not signed in.\n"


def test_a_kept_token_goes_to_no_other_server(run: Run, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    run(*LOGIN, stdin=f"{PASSWORD}\n")
    monkeypatch.setenv("CHAMBER_URL", "http://elsewhere.example")

    result = run("whoami")

    assert result.exit_code == 4
    assert result.stderr == "Error: You are not signed in to http://elsewhere.example. Run `chamber login`.\n"


def test_the_last_server_is_used_where_none_is_named(
    run: Run, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*LOGIN, stdin=f"{PASSWORD}\n")
    monkeypatch.delenv("CHAMBER_URL")

    assert json.loads(run("whoami", "-o", "json").stdout)["server"] == SERVER


def test_a_token_of_the_environment_wins(run: Run, ada: User, become: Callable[..., str]) -> None:
    run(*LOGIN, stdin=f"{PASSWORD}\n")
    become(ada, Scope.READ)

    assert json.loads(run("whoami", "-o", "json").stdout)["token"]["scope"] == "read"


def test_a_revoked_token_is_not_allowed(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada)
    ApiToken.objects.all().delete()

    result = run("whoami")

    assert result.exit_code == 4
    assert result.stderr == "Error: The token is unknown, expired or revoked: sign in again.\n"


def test_a_spoilt_file_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHAMBER_URL")
    config.path().parent.mkdir(parents=True)
    config.path().write_text("[]")

    result = run("whoami")

    assert result.exit_code == 1
    assert str(config.path()) in result.stderr


def test_a_created_token_is_printed_alone(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada)

    result = run("token", "create", "nightly", "--scope", "read", "--days", "1")

    assert result.exit_code == 0
    token = ApiToken.objects.get(name="nightly")
    assert ApiToken.hash_of(result.stdout.strip()) == token.token_hash


def test_tokens_are_listed_and_revoked_by_id(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada)
    run("token", "create", "nightly", "--days", "1", "-o", "json")

    ids = run("token", "list", "-o", "name").stdout.split()
    result = run("token", "revoke", ids[0])

    assert len(ids) == 2
    assert result.exit_code == 0
    assert ApiToken.objects.get(name="nightly").revoked_at is not None


def test_somebody_elses_token_is_not_found(
    run: Run, ada: User, grace: User, become: Callable[..., str]
) -> None:
    become(grace)
    other = ApiToken.objects.get()
    become(ada)

    assert run("token", "revoke", str(other.pk)).exit_code == 3


def test_a_reading_token_makes_no_other(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada, Scope.READ)

    result = run("token", "create", "nightly")

    assert result.exit_code == 4
    assert "this needs 'admin'" in result.stderr


def test_a_token_that_is_none_is_named(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada)
    unknown = "0199c1f2-7d3a-7000-8000-000000000001"
    for token_id in ("nix", unknown):
        result = run("token", "revoke", token_id)
        assert (result.exit_code, f"You have no token '{token_id}'" in result.stderr) == (3, True)


def test_login_asks_for_a_second_factor_until_it_is_right(run: Run, ada: User) -> None:
    with_app(ada)

    result = run("login", stdin=f"ada\n{PASSWORD}\n000000\n{code_of(SECRET)}\n")

    assert result.exit_code == 0
    assert "Code of your second factor" in result.stderr
    assert "This code is wrong" in result.stderr
    assert run("whoami", "-o", "name").stdout == "ada\n"


def test_a_script_gives_the_code_as_an_option(run: Run, ada: User) -> None:
    with_app(ada)

    without = run(*LOGIN, stdin=f"{PASSWORD}\n")
    wrong = run(*LOGIN, "--code", "000000", stdin=f"{PASSWORD}\n")

    assert (without.exit_code, wrong.exit_code) == (4, 4)
    assert "Give it as --code." in without.stderr
    assert run(*LOGIN, "--code", code_of(SECRET), stdin=f"{PASSWORD}\n").exit_code == 0
