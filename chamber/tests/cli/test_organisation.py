"""`chamber teams`, `pools`, `queue` and `why`, over real cycles of the scheduler."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from django.utils import timezone

from agentlink.models import Cluster, Node
from agentlink.tests.factories import make_node
from chamber.models import User
from chamber.tests.cli.conftest import Run
from scheduling.cycle import cycle, decide, usage
from scheduling.explain import last_cycle
from scheduling.tests.factories import make_cluster, make_nodes
from teams.models import Pool, Role, Team
from teams.tests.factories import make_pool, make_team, member, set_share
from workloads import known
from workloads.models import Status
from workloads.tests.factories import make_workload


@pytest.fixture
def olga(org: Team) -> User:
    """An administrator of the whole organisation."""
    return member(org, Role.ORG_ADMIN, "olga")


@pytest.fixture
def schedule() -> Iterator[Callable[[], object]]:
    """Return what runs a cycle; nothing of it is remembered by the next test."""
    yield cycle.run_cycle
    for part in (cycle, decide, last_cycle, usage):
        part.forget()


@pytest.fixture
def busy(pool: Pool, nlp: Team, vision: Team, ada: User, schedule: Callable[[], object]) -> None:
    """Eight GPUs, reserved for NLP and Vision; NLP runs on six, and two workloads wait for what is not left."""
    make_nodes(make_cluster(), pool, 2)
    set_share(nlp, pool, gpus=6)
    set_share(vision, pool, gpus=2)
    make_workload(nlp, ada, slug="train-1", pods=6)
    make_workload(nlp, ada, slug="train-2", pods=4, priority=40)
    make_workload(vision, member(vision, Role.RESEARCHER, "vera"), slug="secret-1", pods=3, priority=30)
    schedule()


def table(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


@pytest.mark.usefixtures("busy")
def test_teams_are_a_tree_with_figures(run: Run, olga: User, become: Callable[..., str]) -> None:
    become(olga)

    result = run("teams")

    assert result.exit_code == 0
    title, heading, *rows = result.stdout.splitlines()
    assert title == "Pool main"
    assert heading.split()[:2] == ["TEAM", "GUARANTEE"]
    assert [row.split()[:3] for row in rows] == [["Acme", "8", "6"], ["NLP", "6", "6"], ["Vision", "2", "0"]]
    assert rows[1].startswith("  NLP")


@pytest.mark.usefixtures("busy")
def test_teams_for_programs_are_rows_by_team_and_pool(
    run: Run, ada: User, become: Callable[..., str]
) -> None:
    make_pool("Spare")
    become(ada)

    rows = json.loads(run("teams", "-o", "json").stdout)

    assert [(row["team"], row["pool"], row["level"]) for row in rows] == [
        ("nlp", "main", 0),
        ("nlp", "spare", 0),
    ]
    assert run("teams", "-o", "name").stdout == "nlp\n"
    assert [row["Slug"] for row in csv.DictReader(io.StringIO(run("teams", "-o", "csv").stdout))] == [
        "nlp",
        "nlp",
    ]


def test_an_unknown_pool_is_named_with_those_there_are(
    run: Run, pool: Pool, ada: User, become: Callable[..., str]
) -> None:
    become(ada)

    result = run("teams", "--pool", "mian")
    far = run("teams", "--pool", "elsewhere")

    assert result.exit_code == far.exit_code == 3
    assert result.stderr == "Error: There is no pool 'mian'. Did you mean 'main'?\n"
    assert far.stderr == "Error: There is no pool 'elsewhere'. There are main.\n"


@pytest.mark.usefixtures("busy")
def test_pools_show_what_is_free_in_them(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada)

    heading, row = table(run("pools").stdout)
    assert heading == [
        "POOL",
        "CAPACITY",
        "SLICES",
        "GUARANTEED",
        "IN",
        "USE",
        "IDLE",
        "UNAVAILABLE",
        "WAITING",
        "NOT",
        "QUEUED",
        "STATE",
    ]
    assert row == ["main", "8", "8", "6", "2", "0", "2", "0", "open"]


@pytest.mark.usefixtures("busy")
def test_what_is_in_use_is_never_more_than_the_capacity_beside_it(
    run: Run, ada: User, become: Callable[..., str]
) -> None:
    become(ada)
    Node.objects.update(ready=False)

    _, row = table(run("pools").stdout)
    assert row[:6] == ["main", "8", "8", "6", "0", "2"]


@pytest.mark.usefixtures("busy")
def test_the_queue_of_a_pool_is_named_either_way(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada)
    assert run("queue", "main").stdout == run("queue", "--pool", "main").stdout
    assert run("queue", "main", "--pool", "main").exit_code == 0
    two = run("queue", "main", "--pool", "lab")
    assert (two.exit_code, two.stdout) == (2, "")
    assert "Two pools are named: 'main' and, by --pool, 'lab'. Name one." in two.stderr


@pytest.mark.usefixtures("busy")
def test_slices_are_counted_beside_the_capacity(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada)
    node = make_node(make_cluster("lab"), "cut", gpus=7, pool=Pool.objects.get(), gpu_type="mig-1g.10gb")
    node.devices.update(slicing="mig", share_milli=143)

    (pool,) = json.loads(run("pools", "-o", "json").stdout)
    assert (pool["figures"]["capacity"], pool["figures"]["slices"], pool["figures"]["slice_gpus"]) == (
        9.001,
        7,
        1.001,
    )
    assert (pool["capacity"], pool["slices"], pool["slice_gpus"]) == (9.001, 7, 1.001)
    _, row = table(run("pools").stdout)
    assert row[1:4] == ["9.001", "7", "(1.001)"]

    Node.objects.update(cordoned=True)
    (pool,) = json.loads(run("pools", "-o", "json").stdout)
    assert (pool["capacity"], pool["slices"], pool["slice_gpus"]) == (0, 0, 0)
    (cells,) = csv.DictReader(io.StringIO(run("pools", "-o", "csv").stdout))
    assert (cells["Capacity"], cells["Slices"]) == ("9.001", "7 (1.001)")
    assert float(cells["Unavailable"]) + float(cells["In use"]) == float(cells["Capacity"])


def test_slices_in_use_are_counted_beside_the_use_of_a_team(
    run: Run, *, nlp: Team, pool: Pool, ada: User, become: Callable[..., str], schedule: Callable[[], object]
) -> None:
    node = make_node(make_cluster("lab"), "cut", gpus=7, pool=pool, gpu_type="mig-1g.10gb")
    node.devices.update(slicing="mig", share_milli=143)
    make_workload(nlp, ada, pods=3, gpu_milli=1000, gpu_types=["mig-1g.10gb"])
    known.forget()
    schedule()
    become(ada)

    (row,) = csv.DictReader(io.StringIO(run("teams", "-o", "csv").stdout))

    assert (row["In use"], row["Slices"]) == ("0.429", "3 (0.429)")


@pytest.mark.usefixtures("busy")
def test_pools_say_of_a_silent_cluster_what_the_page_says(
    run: Run, client: Client, ada: User, become: Callable[..., str]
) -> None:
    become(ada)
    client.force_login(ada)
    Cluster.objects.update(connected=False)

    (told,) = csv.DictReader(io.StringIO(run("pools", "-o", "csv").stdout))

    page = client.get("/pools/").content.decode()
    shown = {
        label: re.search(rf'data-label="{label}[^"]*">([\d.]+)', page)
        for label in ("Capacity", "In use", "Idle", "Unavailable")
    }
    assert {label: found and found[1] for label, found in shown.items()} == {
        label: told[label] for label in shown
    }
    assert (told["Capacity"], told["Idle"]) == ("8", "0")


@pytest.mark.usefixtures("busy")
def test_the_queue_hides_what_is_not_yours_to_see(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada)

    rows = json.loads(run("queue", "-o", "json").stdout)

    assert {row["workload"] for row in rows} == {"train-2", None}
    assert "secret" not in run("queue", "-o", "wide").stdout
    assert run("queue", "-o", "name").stdout == "train-2\n"


def test_an_empty_queue_says_so(
    run: Run, pool: Pool, ada: User, become: Callable[..., str], schedule: Callable[[], object]
) -> None:
    become(ada)
    schedule()

    result = run("queue")

    assert (result.stdout, result.stderr) == ("", "Nothing waits.\n")


@pytest.mark.usefixtures("busy")
def test_why_says_reason_and_next_step(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada)

    found = json.loads(run("why", "train-2", "-o", "json").stdout)
    result = run("why", "train-2")

    assert found["reason"]["message"] in result.stdout
    assert found["reason"]["next_step"] in result.stdout
    assert found["eta"]["text"] in result.stdout
    assert run("why", "train-1").exit_code == 0


def test_why_of_what_has_ended_says_how(
    run: Run, nlp: Team, pool: Pool, ada: User, become: Callable[..., str]
) -> None:
    done = make_workload(nlp, ada, status=Status.COMPLETED, finished_at=timezone.now())
    become(ada)

    result = run("why", done.slug)

    assert "Its command ended with exit code 0 in every pod." in result.stdout
    assert "Nothing holds it up." not in result.stdout


@pytest.mark.usefixtures("busy")
def test_why_of_what_is_not_yours_is_not_found(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada)

    assert run("why", "secret-1").exit_code == 3


def test_without_a_role_there_is_nothing_to_see(
    run: Run, pool: Pool, stranger: User, become: Callable[..., str]
) -> None:
    make_team(Team.objects.get(depth=0), "Audio")
    become(stranger)

    assert run("pools").stderr == "You belong to no team: ask an admin of one to add you.\n"
    assert run("teams").stdout == ""
    assert run("queue").exit_code == 3


@pytest.mark.usefixtures("org")
@pytest.mark.parametrize("command", ["teams", "pools"])
def test_an_installation_without_pools_says_so_and_what_comes_next(
    run: Run, olga: User, become: Callable[..., str], command: str
) -> None:
    become(olga)
    result = run(command)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        "There is no pool yet: an operator makes one on the page Pools, or with `chamber apply -f FILE`.\n"
    )
    assert run(command, "-o", "csv").stderr == ""
    queue = run("queue")
    assert (queue.exit_code, queue.stdout) == (3, "")
    assert queue.stderr.startswith(
        "Error: There is no pool that you may see: an operator makes one on the page"
    )


@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize("command", ["teams", "pools"])
def test_whoever_is_in_no_team_is_told_so(
    run: Run, stranger: User, become: Callable[..., str], command: str
) -> None:
    become(stranger)
    result = run(command)
    assert (result.stdout, result.stderr) == ("", "You belong to no team: ask an admin of one to add you.\n")
