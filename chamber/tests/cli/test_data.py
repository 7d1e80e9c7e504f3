"""`chamber data`, and `chamber submit --mount`."""

import json
from collections.abc import Callable

import pytest

from agentlink.models import DataLocation
from agentlink.tests.factories import make_cluster
from chamber.models import User
from chamber.tests.cli.conftest import Run
from teams.models import Pool, Role, Team
from teams.tests.factories import member
from workloads.models import DataSource, Workload

Become = Callable[..., str]


@pytest.fixture(autouse=True)
def _as_admin(run: Run, org: Team, nlp: Team, pool: Pool, become: Become) -> None:
    become(member(org, Role.ORG_ADMIN, "olga"))


def test_one_is_made_located_mounted_and_deleted(run: Run, ada: User, become: Become, org: Team) -> None:
    make_cluster("east")
    assert run("data", "create", "nlp/imagenet", "--kind", "claim", "--writable").exit_code == 0
    place = ("--cluster", "east", "--namespace", "nlp-jobs")
    result = run("data", "locate", "nlp/imagenet", *place, "--claim", "imagenet-ro")
    assert result.exit_code == 0, result.stderr
    assert "east (nlp-jobs/imagenet-ro)" in run("data", "list").stdout
    result = run("data", "unlocate", "nlp/imagenet", "--cluster", "west")
    assert (result.exit_code, "clusters that have it: east" in result.stderr) == (3, True)
    assert run("data", "unlocate", "nlp/imagenet", *place).exit_code == 0
    assert not DataLocation.objects.exists()
    assert run("data", "update", "nlp/imagenet", "--read-only").exit_code == 0
    assert not DataSource.objects.get().writable
    assert run("data", "delete", "nlp/imagenet").stdout == "Deleted nlp/imagenet.\n"


def test_details_go_by_the_kind(run: Run) -> None:
    result = run(
        "data", "create", "nlp/set", "--kind", "nfs", "--server", "nfs", "--path", "/a", "-o", "json"
    )
    assert json.loads(result.stdout)["server"] == "nfs"
    result = run("data", "create", "nlp/other", "--kind", "s3")
    assert (result.exit_code, "address is missing" in result.stderr) == (6, True)
    result = run("data", "show", "imagenet")
    assert (result.exit_code, "name it TEAM/NAME" in result.stderr) == (2, True)


def test_a_workload_mounts_it(run: Run, ada: User, become: Become) -> None:
    run("data", "create", "nlp/imagenet", "--kind", "claim")
    become(ada)
    result = run(
        "submit", "--team", "nlp", "--image", "i", "--mount", "imagenet:/data", "--mount", "imagenet:/b:ro"
    )
    assert result.exit_code == 0, result.stderr
    workload = Workload.objects.get()
    assert [each["path"] for each in workload.mounts or []] == ["/data", "/b"]
    assert "nlp/imagenet:/data:ro" in run("describe", workload.slug).stdout
    result = run("submit", "--team", "nlp", "--image", "i", "--mount", "imagenet:/data:rw")
    assert (result.exit_code, "may only be read" in result.stderr) == (6, True)
