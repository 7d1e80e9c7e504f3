"""A stored cycle is replayed to the very plan whose words were stored."""

import json
import zlib
from datetime import timedelta

from django.db.models import F

from scheduling import engine
from scheduling.cycle.codec import decode_snapshot, encode_snapshot
from scheduling.cycle.cycle import run_cycle
from scheduling.engine import schedule
from scheduling.explain.stored_plan import tell, unpack
from scheduling.models import Cycle
from scheduling.reading.translate import milliseconds
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from workloads.tests.factories import make_workload

FULL = engine.Snapshot(
    pools=(
        engine.PoolInfo(
            "p",
            "Main",
            engine.Policy(fairness=engine.Fairness.USAGE, max_preemptions=3),
            topology=("rack",),
            recent=(engine.TypicalRequest(250, 2.0),),
        ),
    ),
    teams=(engine.TeamInfo("t", "NLP", shares=(engine.TeamShare("p", 4000, None, 7),)),),
    nodes=(
        engine.NodeInfo(
            "n",
            "n1",
            "p",
            (
                engine.DeviceInfo(0, "H100", 81_920),
                engine.DeviceInfo(1, foreign=True),
                engine.DeviceInfo(2, "mig-1g.10gb", slicing=engine.Slicing.MIG, share_milli=143),
            ),
            labels=(("rack", "a"),),
            taints=(engine.Taint("only", "mig"),),
        ),
    ),
    workloads=(
        engine.WorkloadInfo(
            "memory",
            "m",
            "t",
            engine.Memory(10_000),
            tolerations=(engine.Toleration("only"), engine.Toleration("only", "mig")),
            topology=engine.Topology(preferred="rack"),
        ),
        engine.WorkloadInfo(
            "running",
            "r",
            "t",
            engine.GpuShare(500),
            status=engine.OpenStatus.RUNNING,
            pool="p",
            placements=(engine.PodPlacement(0, "n", (engine.DeviceShare(0, 500),)),),
            started_at=5,
        ),
    ),
)


def test_a_snapshot_with_every_kind_of_row_comes_back_equal() -> None:
    assert decode_snapshot(encode_snapshot(FULL)) == FULL


def test_the_plan_of_a_stored_cycle_follows_from_its_stored_snapshot(acme: Acme) -> None:
    elastic = [make_workload(acme.research, acme.owner) for _ in range(12)]
    run_cycle()
    run_pods(elastic)
    make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)
    make_workload(acme.production, acme.outsider, gpu_memory_mib=20_000)
    run_cycle()

    cycle = Cycle.objects.latest("number")

    snapshot = decode_snapshot(cycle.snapshot)
    plan = schedule(snapshot, milliseconds(cycle.began_at) or 0)
    assert len(plan.preemptions) == 4
    assert unpack(cycle.plan) == json.loads(json.dumps(tell(plan, snapshot)))


def test_of_cycles_in_which_nobody_yields_a_snapshot_is_kept_now_and_then(acme: Acme) -> None:
    for _ in range(3):
        make_workload(acme.research, acme.owner)
        run_cycle()
    assert [bool(cycle.snapshot) for cycle in Cycle.objects.order_by("number")] == [True, False, False]

    Cycle.objects.update(began_at=F("began_at") - timedelta(seconds=11))
    make_workload(acme.research, acme.owner)
    run_cycle()

    assert Cycle.objects.latest("number").snapshot


def test_a_snapshot_stored_before_devices_told_slices_is_read_as_gpus() -> None:
    body = json.loads(zlib.decompress(encode_snapshot(FULL)))
    for device in body["nodes"][0]["devices"]:
        device.pop("slicing", None)
        device.pop("share_milli", None)
    read = decode_snapshot(zlib.compress(json.dumps(body).encode()))
    assert {(device.slicing, device.share_milli) for device in read.nodes[0].devices} == {
        (engine.Slicing.WHOLE, 1000)
    }
