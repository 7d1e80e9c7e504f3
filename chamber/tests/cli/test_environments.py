"""`chamber environments`, and `chamber submit --environment`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from chamber.models import User
from chamber.tests.cli.conftest import Run
from teams.models import Pool, Role, Team
from teams.tests.factories import member
from workloads.models import Environment, EnvironmentVersion, Workload

CREATE = ("environments", "create", "nlp/pytorch", "--image", "train:1")


@pytest.fixture(autouse=True)
def _as_lead(run: Run, nlp: Team, pool: Pool, become: Callable[..., str]) -> None:
    become(member(nlp, Role.LEAD, "lea"))


def test_one_is_made_by_flags_listed_and_shown(run: Run) -> None:
    flags = ["--env", "A=1", "--working-dir", "/work", "--shm-mib", "512", "--gpu-type", "A100"]
    result = run(*CREATE, *flags, "--node-selector", "zone=a", "--note", "First", "-o", "json")
    assert result.exit_code == 0, result.stderr
    newest = json.loads(result.stdout)["newest"]
    assert (newest["variables"], newest["working_dir"], newest["shm_mib"]) == ({"A": "1"}, "/work", 512)
    assert (newest["gpu_types"], newest["node_selector"], newest["note"]) == (
        ["A100"],
        {"zone": "a"},
        "First",
    )
    assert "nlp/pytorch" in run("environments", "list").stdout
    assert "1: train:1" in run("environments", "show", "nlp/pytorch").stdout


def test_update_keeps_what_it_does_not_say(run: Run) -> None:
    run(*CREATE, "--env", "A=1")
    assert run("environments", "update", "nlp/pytorch", "--image", "train:2").exit_code == 0
    newest = EnvironmentVersion.objects.get(number=2)
    assert (newest.image, newest.variables) == ("train:2", {"A": "1"})


def test_a_file_says_all_of_a_version(run: Run, tmp_path: Path) -> None:
    run(*CREATE, "--env", "A=1")
    path = tmp_path / "pytorch.yaml"
    path.write_text("image: train:2\nshm_mib: 1 GiB\n")
    assert run("environments", "update", "nlp/pytorch", "-f", str(path)).exit_code == 0
    newest = EnvironmentVersion.objects.get(number=2)
    assert (newest.variables, newest.shm_mib) == ({}, 1024)
    path.write_text("- a list")
    result = run("environments", "update", "nlp/pytorch", "-f", str(path))
    assert (result.exit_code, "is no mapping" in result.stderr) == (2, True)


def test_it_is_archived_restored_and_deleted(run: Run) -> None:
    run(*CREATE)
    assert run("environments", "archive", "nlp/pytorch").exit_code == 0
    assert "nlp/pytorch" not in run("environments", "list").stdout
    assert "nlp/pytorch" in run("environments", "list", "--archived").stdout
    run("environments", "restore", "nlp/pytorch")
    assert run("environments", "delete", "nlp/pytorch").stdout == "Deleted nlp/pytorch.\n"
    assert not Environment.objects.exists()


@pytest.mark.parametrize("name", ["pytorch", "nlp/", "nlp/pytorch@2"])
def test_it_is_named_with_its_team(run: Run, name: str) -> None:
    result = run("environments", "show", name)
    assert (result.exit_code, "name it TEAM/NAME" in result.stderr) == (2, True)


def test_a_workload_is_submitted_in_one(
    run: Run, ada: User, become: Callable[..., str], tmp_path: Path
) -> None:
    run(*CREATE, "--env", "A=1")
    become(ada)
    result = run("submit", "--team", "nlp", "--environment", "pytorch", "--env", "B=2")
    assert result.exit_code == 0, result.stderr
    workload = Workload.objects.get()
    assert (workload.name, workload.image, workload.environment) == (
        "pytorch",
        "train:1",
        {"A": "1", "B": "2"},
    )
    told = run("describe", workload.slug).stdout
    assert "nlp/pytorch@1" in told
    path = tmp_path / "w.yaml"
    path.write_text("name: again\nteam: nlp\nenvironment: pytorch@1\nvariables: {C: 3}\n")
    assert run("submit", "-f", str(path), "--env", "D=4").exit_code == 0
    again = Workload.objects.get(name="again")
    assert (again.runs_in, again.environment) == ("nlp/pytorch@1", {"A": "1", "D": "4"})
    result = run("submit", "--team", "nlp")
    assert (result.exit_code, "Give --image or --environment" in result.stderr) == (2, True)
