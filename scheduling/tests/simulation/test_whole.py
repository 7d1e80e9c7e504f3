"""A run beside the plainest reading of the rules: one cold cycle on everything, at every change."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import OpenStatus, Snapshot, schedule
from scheduling.scenario.loader import Scenario
from scheduling.simulation.clock import SimulationClock
from scheduling.simulation.outcome import carried_out
from scheduling.simulation.verify import CheckerVerdict

from .builder import HOUR, MINUTE, run, scenario

Start = tuple[float, str]

POOLS = """\
pools:
  - {name: p, policy: {elastic_preemption: %s, queueing: %s}, nodes: [{name: "p{i}", count: 2, gpus: 4}]}
  - {name: q, nodes: [{name: "q{i}", count: 1, gpus: 4}]}
  - {name: r, nodes: [{name: "r{i}", count: 1, gpus: 2}]}"""
TEAMS = "teams: [{name: a, reservations: {p: 4, q: 2}}, {name: b, reservations: {p: 2}}, {name: c}]"
ROW = (
    "name: w{0}, team: {team}, pool: {pool}, gpus: {gpus}, pods: {pods}, min_pods: {least}, "
    "priority: {priority}, submitted: {at}m, duration: {minutes}m"
)


@st.composite
def organisations(draw: st.DrawFn) -> Scenario:
    rows = []
    for number in range(draw(st.integers(1, 14))):
        pods = draw(st.integers(1, 3))
        rows.append(
            ROW.format(
                number,
                team=draw(st.sampled_from("abc")),
                pool=draw(st.sampled_from(["p", "p", "q", "r", "[q, r]"])),
                gpus=draw(st.sampled_from(["1", "2", "0.5"])),
                pods=pods,
                least=draw(st.integers(1, pods)),
                priority=draw(st.sampled_from([10, 50, 50, 100])),
                at=draw(st.integers(-2, 20)),
                minutes=draw(st.integers(1, 15)),
            )
        )
    policy = (
        draw(st.sampled_from(["priority", "fair-share", "never"])),
        draw(st.sampled_from(["strict-fifo", "backfill"])),
    )
    return scenario("\n".join(rows), pools=POOLS % policy, teams=TEAMS)


def plainly(described: Scenario, until: int) -> tuple[list[Start], list[Start]]:
    """Return who started and who was preempted when, in minutes, minute by minute."""
    starts: list[Start] = []
    victims: list[Start] = []
    snapshot, left = (
        described.snapshot,
        {id_: each.duration_ms or 0 for id_, each in described.courses.items()},
    )
    arrivals = list(described.arrivals)
    for now in range(described.now, described.now + until + 1, MINUTE):
        over = {
            w.id for w in snapshot.workloads if w.started_at is not None and w.started_at + left[w.id] == now
        }
        snapshot = replace(snapshot, workloads=tuple(w for w in snapshot.workloads if w.id not in over))
        while arrivals and arrivals[0].submitted_at <= now:
            snapshot = replace(snapshot, workloads=(*snapshot.workloads, arrivals.pop(0)))
        again = True
        while again:
            plan = schedule(snapshot, now)
            at = (now - described.now) / MINUTE
            starts += [(at, start.workload) for start in plan.starts]
            victims += [(at, gone.workload) for gone in plan.preemptions]
            snapshot = carried_out(snapshot, plan, now)
            again = bool(plan.preemptions or plan.shrinks)
    assert all(each.status in (OpenStatus.PENDING, OpenStatus.RUNNING) for each in snapshot.workloads)
    return starts, victims


@settings(max_examples=40, deadline=None)
@given(organisations())
def test_no_plan_of_a_run_breaks_a_rule(described: Scenario) -> None:
    verdict = CheckerVerdict()
    ending = SimulationClock(described, [verdict.look]).run(HOUR)
    verdict.look(ending.snapshot, ending.plan, ending.now)
    assert verdict.sentences() == []


@settings(max_examples=60, deadline=None)
@given(organisations())
def test_groups_and_changes_decide_like_one_cold_cycle_after_another(described: Scenario) -> None:
    ending, diary = run(described, HOUR)
    starts, victims = plainly(described, HOUR)
    assert (sorted(diary.starts), sorted(diary.preemptions)) == (sorted(starts), sorted(victims))
    whole: Snapshot = ending.snapshot
    assert {node.id for node in whole.nodes} == {node.id for node in described.snapshot.nodes}
    assert ending.plan == schedule(whole, ending.now)
