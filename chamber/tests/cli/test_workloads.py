"""`chamber list`, `get`, `cancel`, `hold`, `release`, `requeue`: what each shows and does, and to whom."""

import json
from collections.abc import Callable

import pytest

from chamber.models import Scope, User
from chamber.tests.cli.conftest import Run
from teams.models import Pool, Role, Team
from teams.tests.factories import member
from workloads.models import Event, Status, Workload
from workloads.tests.factories import admit, finish, make_workload

STABLE = {"slug", "name", "team", "owner", "status", "priority", "gpus", "pods", "pool", "submitted_at", "id"}


@pytest.fixture
def bert(nlp: Team, ada: User) -> Workload:
    return make_workload(nlp, ada, name="bert", slug="bert-1")


@pytest.fixture
def gpt(nlp: Team, grace: User) -> Workload:
    return make_workload(nlp, grace, name="gpt", slug="gpt-1", priority=100, pods=2, gpu_milli=4000)


@pytest.fixture(autouse=True)
def _as_ada(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada)


def names(run: Run, *filters: str) -> list[str]:
    return run("list", "-o", "name", *filters).stdout.split()


@pytest.mark.usefixtures("bert", "gpt")
def test_the_table_shows_whose_and_how_large(run: Run) -> None:
    _, gpt, bert = (line.split() for line in run("list").stdout.splitlines())

    assert gpt[:6] == ["gpt-1", "Pending", "nlp", "grace", "2", "x"]
    assert bert[:7] == ["bert-1", "Pending", "nlp", "ada", "1", "50", "elastic"]


@pytest.mark.usefixtures("bert", "gpt")
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ((), ["gpt-1", "bert-1"]),
        (("--owner", "me"), ["bert-1"]),
        (("--reserved",), ["gpt-1"]),
        (("--elastic",), ["bert-1"]),
        (("--team", "nlp"), ["gpt-1", "bert-1"]),
        (("--owner", "ada"), ["bert-1"]),
        (("--pool", "main"), []),
        (("--status", "running", "--status", "pending"), ["gpt-1", "bert-1"]),
        (("--status", "ended"), []),
        (("--search", "ber"), ["bert-1"]),
        (("--sort", "name"), ["bert-1", "gpt-1"]),
        (("--limit", "1"), ["gpt-1"]),
    ],
)
def test_filters_are_the_apis(run: Run, pool: Pool, filters: tuple[str, ...], expected: list[str]) -> None:
    assert names(run, *filters) == expected


@pytest.mark.usefixtures("bert", "gpt", "pool", "vision")
@pytest.mark.parametrize(
    ("filters", "told"),
    [
        (("--team", "nlb"), "There is no team 'nlb' that you may see. Did you mean 'nlp'?"),
        (("--team", "vision"), "There is no team 'vision' that you may see."),
        (("--owner", "grade"), "There is no user 'grade' that you may see. Did you mean 'grace'?"),
        (("--owner", "nobody"), "There is no user 'nobody' that you may see."),
        (("--pool", "mian"), "There is no pool 'mian' that you may see. Did you mean 'main'?"),
    ],
)
def test_a_filter_by_what_is_not_there_is_no_empty_list(
    run: Run, filters: tuple[str, ...], told: str
) -> None:
    result = run("list", *filters)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == f"Error: {told}\n"


def test_who_sees_no_team_learns_of_no_user(run: Run, stranger: User, become: Callable[..., str]) -> None:
    become(stranger)
    assert run("list", "--owner", "ada").exit_code == run("list", "--owner", "nobody").exit_code == 3
    assert run("list", "--owner", stranger.username).exit_code == 0


def test_long_lists_are_read_page_by_page(
    run: Run, nlp: Team, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chamber.cli.client.PAGE_ROWS", 2)
    for number in range(5):
        make_workload(nlp, ada, slug=f"w-{number}")

    assert names(run) == ["w-4", "w-3", "w-2", "w-1", "w-0"]


@pytest.mark.parametrize("form", ["table", "name", "json"])
def test_of_a_long_list_it_is_said_that_there_is_more(run: Run, nlp: Team, ada: User, form: str) -> None:
    for number in range(4):
        make_workload(nlp, ada, slug=f"w-{number}")

    some = run("list", "--limit", "3", "-o", form)
    assert some.stderr == (
        "The first 3 are shown, and there are more: see all with --all, or more with --limit NUMBER.\n"
    )
    assert ("w-1" in some.stdout, "w-0" in some.stdout) == (True, False)
    for enough in (("--limit", "4"), ("--all",)):
        whole = run("list", *enough, "-o", form)
        assert "w-0" in whole.stdout
        assert not whole.stderr


def test_an_unknown_filter_is_rejected_with_what_is_allowed(run: Run) -> None:
    result = run("list", "--status", "sleeping")

    assert result.exit_code == 6
    assert "'sleeping'" in result.stderr
    assert "pending" in result.stderr


def test_get_is_the_apis_own_object(run: Run, bert: Workload) -> None:
    found = json.loads(run("get", "bert-1", "-o", "json").stdout)

    assert found["slug"] == "bert-1"
    assert found.keys() >= STABLE


def test_get_shows_a_person_what_is_known(run: Run, bert: Workload) -> None:
    run("cancel", "bert-1")

    lines = dict(line.split("  ", 1) for line in run("get", "bert-1").stdout.splitlines())

    assert lines["Status"].strip() == "Cancelled"
    assert lines["How it ended"].strip() == "Cancelled by ada."
    assert "Time limit" not in lines


@pytest.mark.usefixtures("bert", "gpt")
def test_get_of_several_is_a_list(run: Run) -> None:
    assert [row["slug"] for row in json.loads(run("get", "bert-1", "gpt-1", "-o", "json").stdout)] == [
        "bert-1",
        "gpt-1",
    ]


def test_what_is_another_teams_is_not_found(run: Run, vision: Team) -> None:
    make_workload(vision, member(vision, Role.RESEARCHER, "vera"), slug="secret-1")

    for command in ("get", "cancel", "hold", "release", "requeue", "watch", "wait", "why"):
        result = run(command, "secret-1")
        assert result.exit_code == 3, command
        assert result.stderr.startswith("Error: There is no workload 'secret-1'"), command


def test_hold_release_and_cancel(run: Run, bert: Workload) -> None:
    assert run("hold", "bert-1").stdout == "bert-1 is held.\n"
    assert names(run, "--status", "held") == ["bert-1"]
    assert run("release", "bert-1").stdout == "bert-1 is released.\n"
    assert run("cancel", "bert-1").stdout == "bert-1 is cancelled.\n"

    bert.refresh_from_db()
    assert bert.status == Status.CANCELLED
    assert Event.objects.filter(workload=bert, via="cli", actor="ada").count() == 3


def test_requeue_brings_an_ended_one_back(run: Run, bert: Workload) -> None:
    run("cancel", "bert-1")

    assert run("requeue", "bert-1").exit_code == 0
    bert.refresh_from_db()
    assert bert.status == Status.PENDING


def test_a_cancel_that_comes_too_late_is_a_conflict(run: Run, bert: Workload, pool: Pool) -> None:
    finish(admit(bert, pool))

    result = run("cancel", "bert-1")

    assert result.exit_code == 5
    assert "has ended already" in result.stderr


@pytest.mark.parametrize("command", ["cancel", "hold", "requeue"])
def test_what_is_somebody_elses_is_not_allowed(run: Run, gpt: Workload, command: str) -> None:
    result = run(command, "gpt-1")

    assert result.exit_code == 4
    assert "belongs to grace" in result.stderr
    gpt.refresh_from_db()
    assert (gpt.status, gpt.held) == (Status.PENDING, False)


def test_the_first_refusal_does_not_keep_the_others_from_it(run: Run, bert: Workload, gpt: Workload) -> None:
    result = run("cancel", "gpt-1", "nothing-1", "bert-1")

    assert result.exit_code == 4
    assert result.stdout == "bert-1 is cancelled.\n"
    assert len(result.stderr.splitlines()) == 2


def test_the_scope_bounds_the_command_line_too(
    run: Run, ada: User, bert: Workload, become: Callable[..., str]
) -> None:
    become(ada, Scope.READ)
    assert run("get", "bert-1").exit_code == 0
    assert run("cancel", "bert-1").exit_code == 4

    become(ada, Scope.SUBMIT)
    assert run("cancel", "bert-1").exit_code == 0


def test_a_name_that_is_a_path_stays_a_name(run: Run) -> None:
    assert run("get", "../me").exit_code == 3
