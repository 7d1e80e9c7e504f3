"""`chamber submit --array` and `chamber arrays`: what is submitted, shown and done."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from chamber.models import User
from chamber.tests.cli.conftest import Run
from teams.models import Pool, Team
from workloads.models import Workload, WorkloadArray
from workloads.tests.factories import make_array

SUBMIT = ("submit", "--team", "nlp", "--image", "train:1", "--name", "sweep")


@pytest.fixture(autouse=True)
def _as_ada(run: Run, ada: User, pool: Pool, become: Callable[..., str]) -> None:
    become(ada)


def values() -> list[dict[str, str]]:
    """Return the parameters of all members in their order."""
    rows = Workload.objects.order_by("array_index").values_list("environment", flat=True)
    return [{name: text for name, text in row.items() if not name.startswith("CHAMBER_")} for row in rows]


def test_a_grid_is_submitted_by_flags_and_its_name_printed(run: Run) -> None:
    result = run(*SUBMIT, "--array", "lr=0.1,0.01", "--array", "seed=1,2", "--max-parallel", "3")
    array = WorkloadArray.objects.get()
    assert result.stdout.split() == [array.slug]
    assert (array.size, array.max_parallel) == (4, 3)
    assert values() == [{"lr": lr, "seed": seed} for lr in ("0.1", "0.01") for seed in "12"]


def test_a_csv_is_read_from_its_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text('lr,note\n0.1,"a, b"\n1,c\n')
    run(*SUBMIT, "--array", f"@{path}")
    assert values() == [{"lr": "0.1", "note": "a, b"}, {"lr": "1", "note": "c"}]
    missing = run(*SUBMIT, "--array", "@nowhere.csv")
    assert (missing.exit_code, "nowhere.csv cannot be read" in missing.stderr) == (2, True)


def test_a_range_of_a_file_is_replaced_by_the_flag(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text("name: sweep\nteam: nlp\nimage: train:1\narray: 0-199\n")
    run("submit", "-f", str(path), "--array", "5-6")
    assert list(Workload.objects.order_by("pk").values_list("array_index", flat=True)) == [5, 6]


def test_what_is_wrong_is_told(run: Run) -> None:
    result = run(*SUBMIT, "--array", "0-10000", "--max-parallel", "0")
    assert result.exit_code == 6
    assert "The array has 10,001 members; at most 10,000 are allowed." in result.stderr
    assert "max_parallel is 0; at least 1 is allowed." in result.stderr
    mixed = run(*SUBMIT, "--array", "0-3", "--array", "lr=1,2")
    assert (mixed.exit_code, "for a grid only" in mixed.stderr) == (2, True)


def test_a_dry_run_says_how_many_and_what(run: Run) -> None:
    result = run(*SUBMIT, "--array", "lr=0.1,0.01", "--max-parallel", "1", "--dry-run", "-o", "json")
    (told,) = json.loads(result.stdout)
    assert told["message"].startswith(
        "An array of 2 members, at most 1 at once: 0 to 1, the first with lr=0.1."
    )
    assert not Workload.objects.exists()


def test_one_workload_is_followed_and_not_an_array(run: Run) -> None:
    result = run("run", *SUBMIT[1:], "--array", "0-3")
    assert (result.exit_code, "takes an array" in result.stderr) == (2, True)


def test_arrays_and_their_members_are_listed(run: Run, nlp: Team, ada: User) -> None:
    make_array(nlp, ada, slug="sweep-1", statuses=["pending", "held", "failed", "completed"])
    row = run("arrays", "list").stdout.splitlines()[1]
    assert row.split()[:4] == ["sweep-1", "4", "50", "%"]
    assert "2 pending, 1 completed, 1 failed" in row
    shown = json.loads(run("arrays", "show", "sweep-1", "-o", "json").stdout)
    assert shown["members"]["failed"] == 1
    assert run("arrays", "members", "sweep-1", "--status", "failed", "-o", "name").stdout.split() == [
        "sweep-1-2"
    ]
    assert run("arrays", "show", "nothing").exit_code == 3


def test_acts_ask_with_how_many_and_say_what_was_done(run: Run, nlp: Team, ada: User) -> None:
    make_array(nlp, ada, slug="sweep-1", statuses=["pending", "held", "failed"])
    asked = run("arrays", "cancel", "sweep-1", stdin="n\n")
    assert "Cancel 2 of 3 members of sweep-1?" in asked.stderr
    assert not Workload.objects.filter(status="cancelled").exists()
    assert run("arrays", "hold", "sweep-1", "--yes").stdout == "Held 1 of 3 members of sweep.\n"
    assert run("arrays", "release", "sweep-1").stdout == "Released 2 of 3 members of sweep.\n"
    assert run("arrays", "retry", "sweep-1", "--yes").stdout == "Requeued 1 of 3 members of sweep.\n"
    assert run("arrays", "cancel", "sweep-1", "--yes").stdout == "Cancelled 3 of 3 members of sweep.\n"
    again = run("arrays", "cancel", "sweep-1", "--yes")
    assert (again.exit_code, "has no member that is open" in again.stderr) == (5, True)


def test_waiting_tells_how_all_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_: float) -> None:
        from django.utils import timezone

        Workload.objects.filter(array_index=0).update(status="cancelled", finished_at=timezone.now())
        Workload.objects.filter(array_index=1).update(status="cancelled", finished_at=timezone.now())

    monkeypatch.setattr("time.sleep", end)
    result = run(*SUBMIT, "--array", "0-1", "--wait")
    assert (result.exit_code, "2 cancelled" in result.stderr) == (8, True)
