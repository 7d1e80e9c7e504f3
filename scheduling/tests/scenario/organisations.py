"""Random small organisations for properties: a tree of teams, a few nodes, work that is there and work that waits."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from scheduling.engine import HOUR_MS, OpenStatus, Plan, Snapshot, WorkloadInfo
from scheduling.scenario.document import Format, ScenarioError
from scheduling.scenario.loader import Scenario, load

Row = dict[str, Any]

RARELY = st.sampled_from((None,) * 7 + ("c",))
"""A fact that most do not have: too many of them at once, and nobody competes with anybody."""
TYPES: tuple[Row, ...] = (
    *({"gpu_type": gpu_type} for gpu_type in ("A100", "H100") * 3),
    {"gpu_type": "mig", "slices": "mig", "slice_milli": 429},
    {"gpu_type": "shared", "slices": "replicas", "slice_milli": 250},
)
"""What the GPUs of a node are."""
NAMED = (["H100"], ["H100"], ["mig"], ["shared"], ["mig", "A100"])
QUEUEING = ("backfill", "strict-fifo", "best-effort-fifo")
ELASTIC = ("priority", "fair-share", "never")


@st.composite
def policies(draw: st.DrawFn) -> Row:
    return {
        "queueing": draw(st.sampled_from(QUEUEING)),
        "elastic_preemption": draw(st.sampled_from(ELASTIC)),
        "placement": draw(st.sampled_from(("binpack", "spread"))),
        "fairness": draw(st.sampled_from(("entitlement", "usage"))),
        "min_runtime": draw(st.sampled_from(("0s", "10m"))),
        "max_preemptions": draw(st.sampled_from((None, None, 1))),
        "default_time_limit": draw(st.sampled_from((None, "1h"))),
    }


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Row:
    return {
        "name": name,
        "gpus": draw(st.integers(1, 8)),
        **draw(st.sampled_from(TYPES)),
        "gpu_memory_mib": 1000,
        "cpu": None if draw(RARELY) is None else 8,
        "cluster": draw(RARELY),
        "ready": draw(RARELY) is None,
        "foreign": 0 if draw(RARELY) is None else 1,
    }


@st.composite
def pools(draw: st.DrawFn, name: str) -> Row:
    count = draw(st.integers(1, 3))
    return {
        "name": name,
        "policy": draw(policies()),
        "nodes": [draw(nodes(f"{name}-{i}")) for i in range(count)],
    }


@st.composite
def teams(draw: st.DrawFn, count: int, pool_names: list[str]) -> list[Row]:
    rows: list[Row] = []
    for index in range(count):
        gpus = st.sampled_from((0, 0, 1, 2, 3, 4, 8))
        rows.append(
            {
                "name": f"t{index}",
                "parent": draw(st.sampled_from([None, *(row["name"] for row in rows)])),
                "bursting_priority": draw(st.sampled_from((1, 1, 2, 3, 0))),
                "burst_limit": draw(st.sampled_from((None, None, None, None, 0, 50, 100))),
                "maximum": draw(st.sampled_from((None, None, None, None, 4, 6))),
                "reservations": {pool: draw(gpus) for pool in pool_names},
                "usage": {pool_names[0]: draw(st.integers(0, 5))},
            }
        )
    return rows


@st.composite
def workloads(draw: st.DrawFn, name: str, team_count: int, pool_names: list[str]) -> Row:
    status = draw(
        st.sampled_from(("pending", "pending", "running", "running", "queued", "starting", "stopping"))
    )
    pods = draw(st.sampled_from((1, 1, 1, 2, 3, 4)))
    row: Row = {
        "name": name,
        "team": f"t{draw(st.integers(0, team_count - 1))}",
        "pool": draw(st.sampled_from([None, pool_names[0], pool_names[0], pool_names])),
        "priority": draw(st.sampled_from((10, 50, 50, 50, 60, 60, 100, 200))),
        "status": status,
        "pods": pods,
        "min_pods": draw(st.sampled_from((None, None, 1))),
        draw(st.sampled_from(("gpus", "gpus", "gpus", "gpu_memory_mib"))): 1,
        "cpu": draw(st.sampled_from((0, 0, 2))),
        "gpu_types": [] if draw(RARELY) is None else draw(st.sampled_from(NAMED)),
        "time_limit": draw(st.sampled_from((None, "30m", "2h"))),
        "preemptions": draw(st.sampled_from((0, 0, 1))),
    }
    if "gpus" in row:
        row["gpus"] = draw(st.sampled_from((1, 1, 1, 2, 4, 0.5, 0.25)))
    else:
        row["gpu_memory_mib"] = draw(st.sampled_from((100, 333, 700)))
    if status != "pending" and pods > 1 and draw(st.booleans()):
        row |= {"pool": pool_names[0], "min_pods": 1, "nodes": [f"{pool_names[0]}-0"]}
    if status in ("running", "stopping"):
        row["started"] = draw(st.sampled_from(("-1m", "-10m", "-5h")))
    return row


@st.composite
def organisations(draw: st.DrawFn) -> str:
    """A scenario that the loader takes, as JSON: what a failure prints can be simulated as it stands."""
    pool_names = ["p", "q"][: draw(st.sampled_from((1, 1, 2)))]
    team_count = draw(st.integers(1, 5))
    document = {
        "version": 1,
        "pools": [draw(pools(name)) for name in pool_names],
        "teams": draw(teams(team_count, pool_names)),
        "workloads": [
            draw(workloads(f"w{i:02}", team_count, pool_names)) for i in range(draw(st.integers(1, 20)))
        ],
    }
    return _loadable(document)


def loaded(document: str) -> Scenario:
    return load(document.encode(), Format.JSON)


def _loadable(document: Row) -> str:
    """Return the document without the placed workloads for which there is no room."""
    while True:
        text = json.dumps(document)
        try:
            loaded(text)
            return text
        except ScenarioError as error:
            name = error.message.split('"')[1]
            kept = [row for row in document["workloads"] if row["name"] != name]
            assume(len(kept) < len(document["workloads"]) and kept)
            document["workloads"] = kept


def carried_out(snapshot: Snapshot, plan: Plan, now: int) -> Snapshot:
    """Return the organisation after a plan, as if everything in it happened at once."""
    after: dict[str, WorkloadInfo | None] = {workload.id: workload for workload in snapshot.workloads}
    by_id = {workload.id: workload for workload in snapshot.workloads}
    for keep in plan.keeps:
        workload = by_id[keep.workload]
        after[keep.workload] = None if workload.status is OpenStatus.STOPPING else _running(workload, now)
    for start in plan.starts:
        workload = replace(by_id[start.workload], pool=start.pool, placements=start.placements)
        after[start.workload] = _running(workload, now)
    for grow in plan.grows:
        workload = by_id[grow.workload]
        after[grow.workload] = _running(
            replace(workload, placements=workload.placements + grow.placements), now
        )
    for shrink in plan.shrinks:
        workload = by_id[shrink.workload]
        left = tuple(pod for pod in workload.placements if pod.pod_index not in shrink.pods)
        after[shrink.workload] = _running(replace(workload, placements=left), now)
    for gone in plan.preemptions:
        workload = by_id[gone.workload]
        after[gone.workload] = replace(
            workload, status=OpenStatus.PENDING, pool=None, placements=(), started_at=None
        )
    return replace(snapshot, workloads=tuple(workload for workload in after.values() if workload is not None))


def _running(workload: WorkloadInfo, now: int) -> WorkloadInfo:
    """It runs; who did before is no older, and who did not is as lawful a victim as before."""
    started_at = workload.started_at if workload.status is OpenStatus.RUNNING else now - HOUR_MS
    return replace(workload, status=OpenStatus.RUNNING, started_at=started_at)
