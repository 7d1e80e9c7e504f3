"""One snapshot and a plan for it, made by hand, with every kind of decision in it."""

from scheduling.engine import (
    HOUR_MS,
    Allocation,
    DeviceShare,
    Eta,
    Grow,
    Keep,
    Plan,
    PodPlacement,
    PoolFigures,
    Preemption,
    Reason,
    ReasonCode,
    ReasonKind,
    Rule,
    Shrink,
    Start,
    TeamFigures,
    Wait,
)
from scheduling.scenario.loader import NOW_MS, Scenario

from .builder import loaded

POOLS = 'pools: [{name: main, nodes: [{count: 3, name: "n{i}", gpus: 4}]}]\n'
TEAMS = "teams: [{name: acme}, {name: lab, parent: acme}]\n"
ROWS = """\
name: runs, team: lab, priority: 100, gpus: 0.25, status: running, nodes: [n0]
name: grows, team: lab, pods: 2, min_pods: 1, status: running, nodes: [n0]
name: shrinks, team: lab, pods: 2, min_pods: 1, status: running, nodes: [n0, n1]
name: goes, team: acme, gpus: 2, status: running, nodes: [n1]
name: comes, team: lab, priority: 100, pods: 2, gpus: 2
name: waits, team: acme, gpus: 4
name: held, team: acme, held: true"""


def scenario(expect: str = "") -> Scenario:
    return loaded(ROWS, pools=POOLS, teams=TEAMS, expect=expect)


def _pod(index: int, node: str, device: int, gpus: int = 1) -> PodPlacement:
    return PodPlacement(index, node, tuple(DeviceShare(device + i, 1000) for i in range(gpus)))


def _reason(code: ReasonCode, message: str, asked: int | None = None, available: int | None = None) -> Reason:
    return Reason(code, ReasonKind.WAIT, message, "Wait.", asked_milli=asked, available_milli=available)


VICTIMS = _reason(ReasonCode.WAITING_FOR_VICTIMS, "Waits for 2 victims.")
SHRUNK = _reason(ReasonCode.SHRUNK, "Gave up a pod.")
PREEMPTED = _reason(ReasonCode.PREEMPTED, "Preempted by comes.")
SHORT = _reason(ReasonCode.WAITING_FOR_GPUS, "Asks for 4 GPUs, 0.5 are free.", asked=4000, available=500)
HELD = Reason(
    ReasonCode.HELD, ReasonKind.CHANGE, "It is held.", "Release it.", limit_milli=0, team="acme", level="acme"
)

PLAN = Plan(
    starts=(
        Start(
            "comes",
            "main",
            (_pod(0, "n1", 0, 2), _pod(1, "n2", 0, 2)),
            (Allocation("lab", 3000), Allocation("acme", 1000)),
            ("shrinks", "goes"),
            waits_for_victims=True,
            reason=VICTIMS,
        ),
    ),
    grows=(Grow("grows", "main", (_pod(1, "n2", 3),), (Allocation(None, 2000),)),),
    keeps=(Keep("runs", "main", (Allocation("lab", 250),), None),),
    shrinks=(Shrink("shrinks", "main", (1,), (), "comes", "lab", Rule.RESERVED, None, SHRUNK),),
    preemptions=(Preemption("goes", "main", 2000, "comes", "lab", Rule.RESERVED, None, 0, PREEMPTED),),
    waits=(
        Wait("held", None, None, HELD, Eta(why="held")),
        Wait("waits", "main", 1, SHORT, Eta(NOW_MS + HOUR_MS, NOW_MS + 2 * HOUR_MS)),
    ),
    pools=(PoolFigures("main", 12_000, 7250, 4750, oversubscribed=True, fragmentation=1 / 3),),
    teams=(
        TeamFigures("acme", "main", 8000, 9500, 7250, 4250, 11_250, 8000),
        TeamFigures("lab", "main", 3000, None, 7250, 4250, 7250, 333),
    ),
)
