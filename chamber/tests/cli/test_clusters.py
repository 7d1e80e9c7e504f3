"""`chamber clusters`: which pools each serves, told and changed."""

import pytest
from django.utils import timezone

from agentlink.models import Device, DeviceSlicing
from agentlink.tests.factories import make_cluster, make_node
from chamber.models import Scope
from chamber.tests.cli.conftest import Run
from chamber.tokens import create_token
from teams.models import Pool, Role, Team
from teams.tests.factories import make_pool, member


@pytest.fixture(autouse=True)
def _signed_in(run: Run, org: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = member(org, Role.OPERATOR, "otto")
    _, secret = create_token(user=operator, name="test", scope=Scope.ADMIN, days=1)
    monkeypatch.setenv("CHAMBER_TOKEN", secret)


def test_a_cluster_is_bound_and_unbound_and_its_claims_are_told(run: Run) -> None:
    spare = make_pool("Spare", clusters=[])
    make_node(make_cluster("lab"), "n1", refused_pool=spare)
    listed = run("clusters", "list")
    assert "none" in listed.stdout
    assert "Warning: By their labels 1 node of lab would be in the pool Spare" in listed.stderr
    assert run("clusters", "bind", "lab", "spare").stdout == "lab may serve spare.\n"
    assert Pool.objects.get(slug="spare").clusters == ["lab"]
    assert run("clusters", "unbind", "lab", "spare").stdout == "lab no longer serves spare.\n"
    assert Pool.objects.get(slug="spare").clusters == []
    assert run("clusters", "bind", "lab", "spair").exit_code == 3
    assert run("clusters", "list", "-o", "name").stdout == "lab\n"


def test_slices_are_no_gpus_and_a_cluster_that_was_let_go_of_is_told_as_such(run: Run) -> None:
    node = make_node(make_cluster("lab", connected=True), "n1", gpus=2)
    cut = {"slicing": DeviceSlicing.MIG, "share_milli": 143}
    Device.objects.create(node=node, index=2, gpu_type="mig-1g.10gb", **cut)
    make_cluster("east", connected=False, released_at=timezone.now())
    make_cluster("west", connected=False)
    rows = [line.split() for line in run("clusters", "list").stdout.splitlines()]
    assert rows[0][-3:] == ["GPUS", "SLICES", "POOLS"]
    told = {row[0]: " ".join(row[1:]) for row in rows[1:]}
    assert "1 2 1 (0.143)" in told["lab"]
    assert told["lab"].startswith("connected")
    assert told["east"].startswith("released")
    assert told["west"].startswith("not connected")
