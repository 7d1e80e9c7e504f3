"""`chamber delete`: by name, confirmed, and refused with the server's sentence."""

import pytest

from agentlink.models import Cluster
from agentlink.tests.factories import make_cluster
from chamber.models import Scope
from chamber.tests.cli.conftest import Run
from chamber.tokens import create_token
from teams.models import Pool, Role, Team
from teams.tests.factories import make_pool, make_team, member


@pytest.fixture(autouse=True)
def _signed_in(run: Run, org: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = member(org, Role.ORG_ADMIN, "olga")
    _, secret = create_token(user=admin, name="test", scope=Scope.ADMIN, days=1)
    monkeypatch.setenv("CHAMBER_TOKEN", secret)


def test_what_nothing_hangs_on_is_deleted_by_its_name(run: Run, org: Team) -> None:
    make_pool("Spare")
    make_team(org, "Idle")
    make_cluster("west", connected=False)
    for kind, name in (("pool", "spare"), ("team", "idle"), ("cluster", "west")):
        result = run("delete", kind, name, "--yes")
        assert (result.exit_code, result.stdout) == (0, f"The {kind} {name} is deleted.\n")
    assert not Pool.objects.exists()
    assert not Cluster.objects.exists()
    assert not Team.objects.filter(slug="idle").exists()


def test_it_asks_for_the_name(run: Run) -> None:
    make_pool("Spare")
    wrong = run("delete", "pool", "spare", stdin="main\n")
    assert wrong.exit_code == 2
    assert "Nothing was deleted: 'main' is not 'spare'." in wrong.stderr
    assert Pool.objects.exists()
    assert run("delete", "pool", "spare", stdin="spare\n").exit_code == 0


def test_what_is_not_there_is_said(run: Run) -> None:
    assert run("delete", "pool", "nowhere", "--yes").exit_code == 3


def test_what_something_hangs_on_is_a_conflict_with_a_sentence(run: Run) -> None:
    make_cluster("east")
    result = run("delete", "cluster", "east", "--yes")
    assert result.exit_code == 5
    assert "The agent of east is connected." in result.stderr
