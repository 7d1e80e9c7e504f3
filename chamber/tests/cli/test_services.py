"""`chamber service-accounts`: what programs sign in as, from the command line."""

from collections.abc import Callable

import pytest

from chamber.cli.status import Exit
from chamber.models import ServiceToken, User
from chamber.tests.cli.conftest import Run
from teams.models import Role, Team
from teams.tests.factories import member


@pytest.fixture
def lena(nlp: Team, run: Run, become: Callable[..., str]) -> User:
    user = member(nlp, Role.LEAD, "lena")
    become(user)
    return user


def test_one_is_made_used_rotated_and_disabled(lena: User, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run("service-accounts", "create", "ci", "--team", "nlp", "--role", "researcher")
    assert made.exit_code == 0, made.stderr
    secret = run("service-accounts", "create-token", "ci", "runner").stdout.strip()
    assert secret.startswith("chs_")
    lenas = monkeypatch.setenv
    row = ServiceToken.objects.get()
    rotated = run("service-accounts", "rotate", "ci", str(row.pk), "--overlap", "5")
    assert rotated.stdout.startswith("chs_")
    assert rotated.stderr == "The old token goes on for 5 minutes.\n"
    assert run("service-accounts", "revoke", "ci", str(row.pk)).exit_code == 0
    assert "runner" in run("service-accounts", "tokens", "ci").stdout
    assert "researcher of nlp" in run("service-accounts", "show", "ci").stdout
    assert run("service-accounts", "list", "-o", "name").stdout.split() == ["ci"]
    assert run("service-accounts", "edit", "ci", "--description", "nightly").exit_code == 0
    assert run("service-accounts", "edit", "ci").exit_code == Exit.USAGE
    done = run("service-accounts", "disable", "ci")
    assert done.stdout == "ci is disabled. Tokens revoked: 1; open workloads left as they are: 0.\n"
    assert run("service-accounts", "disable", "ci").exit_code == Exit.CONFLICT
    assert run("service-accounts", "enable", "ci").exit_code == 0
    secret = run("service-accounts", "create-token", "ci", "runner").stdout.strip()
    lenas("CHAMBER_TOKEN", secret)
    assert "service:ci" in run("whoami").stdout


def test_what_is_not_there_is_named(lena: User, run: Run) -> None:
    assert run("service-accounts", "list").stderr == "There are no service accounts.\n"
    refused = run("service-accounts", "show", "nix")
    assert (refused.exit_code, "'nix'" in refused.stderr) == (Exit.NOT_FOUND, True)
    refused = run("service-accounts", "revoke", "ci", "nix")
    assert (refused.exit_code, "ci has no token 'nix'" in refused.stderr) == (Exit.NOT_FOUND, True)
