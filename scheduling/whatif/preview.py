"""What would become of a submission: the engine's answer on a copy of the present with the newcomer added."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice

from chamber.words import count as counted
from chamber.words import span
from scheduling import engine
from scheduling.engine import schedule
from scheduling.engine.model.quantities import gpus
from scheduling.explain import plan_text, silence
from scheduling.explain.explanation import Explanation
from scheduling.explain.plan_text import PlanNames
from scheduling.explain.reader import Reader
from scheduling.explain.workload import without_released
from scheduling.reading import data_sets, recent, translate
from scheduling.reading.picture import SnapshotPicture
from scheduling.reading.requests import ASKED
from scheduling.reading.snapshot import dependency_of
from scheduling.reading.translate import Circumstances
from teams.actors import Actor
from workloads.models import Workload
from workloads.requests import SubmissionRequest
from workloads.submission import prepare

PICTURE_KEPT = timedelta(seconds=1)
"""Somebody types, and asks again with each key."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What would happen. `outcome` is `starts`, `preempts` (and then starts), or `waits`; `why` only with waits."""

    outcome: str
    sentence: str
    why: Explanation | None = None


def preview(*, by: Actor, request: SubmissionRequest) -> Preview:
    """Return what the next cycle would do with the request; nothing is written.

    Raises what `submit` would refuse it with.
    """
    workload = prepare(by=by, requests=[request])[0]
    data = data_sets.of_new([workload]).get(workload.pk, ())
    around = Circumstances(dependency_of(request.needs), data=data)
    newcomer = translate.workload({name: getattr(workload, name) for name in ASKED}, around)
    picture = recent.picture(at_most=PICTURE_KEPT)
    snapshot = replace(picture.snapshot, workloads=(*picture.snapshot.workloads, newcomer))
    plan = schedule(snapshot, picture.now)
    start = next((start for start in plan.starts if start.workload == newcomer.id), None)
    if start is not None:
        return _of_array(request, _undecided(_starts(start, plan, snapshot, workload, picture.now)))
    wait = next((wait for wait in plan.waits if wait.workload == newcomer.id), None)
    if wait is None:  # Its deadline passed while the picture was taken.
        return _undecided(Preview("waits", "Its deadline passes before it can start. Give a later one."))
    return _of_array(request, _undecided(_waits(wait, picture, by)))


def _of_array(request: SubmissionRequest, answer: Preview) -> Preview:
    """Return the answer, which is that of any member, with how many members there are and what they are."""
    array = request.array
    if array is None:
        return answer
    first, *others = islice(array.members(), 2)
    named = ", ".join(f"{name}={value}" for name, value in first.parameters.items())
    example = f", the first with {shorten(named, 120)}" if named else ""
    most = f", at most {request.max_parallel:,} at once" if request.max_parallel else ""
    each = " Each, as if it were the only one:" if others else ""
    told = f"An array of {counted(array.size, 'member')}{most}: {array.indexes[0]} to {array.indexes[-1]}{example}."
    return replace(answer, sentence=f"{told}{each} {answer.sentence}")


def shorten(text: str, most: int) -> str:
    """Return a text, cut where it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _undecided(answer: Preview) -> Preview:
    """Return the answer with what keeps it from coming true: while no cycle ends, nothing starts."""
    unknown = silence.look()
    if not unknown.undecided:
        return answer
    told = answer.sentence[:1].lower() + answer.sentence[1:]
    return replace(answer, outcome="waits", sentence=f"{unknown.scheduler} Once it decides again: {told}")


def _starts(
    start: engine.Start, plan: engine.Plan, snapshot: engine.Snapshot, workload: Workload, now: int
) -> Preview:
    names = PlanNames.of(snapshot)
    given = plan_text.given(start, names)
    if start.victims:
        lost = _lost(start, plan, snapshot, now)
        return Preview(
            "preempts", f"{_victims(start, snapshot, names)} Then it starts with {given}. {lost}".strip()
        )
    when = "as soon as the pods that stop there are gone" if start.waits_for_victims else "now"
    pods = len(start.placements)
    partly = f" {pods} of its {workload.pods} pods," if pods < workload.pods else ""
    return Preview("starts", f"Starts {when} with{partly} {given}.")


def _victims(start: engine.Start, snapshot: engine.Snapshot, names: PlanNames) -> str:
    """Return whom it would take GPUs from, by team: `Would preempt 2 elastic workloads (8 GPUs) of Production.`"""
    chosen = set(start.victims)
    teams: Counter[str] = Counter()
    milli: Counter[str] = Counter()
    for workload in snapshot.workloads:
        if workload.id in chosen:
            team = names.teams.get(workload.team, "a former team")
            teams[team] += 1
            milli[team] += sum(pod.milli for pod in workload.placements)
    parts = [
        f"{count} elastic {'workload' if count == 1 else 'workloads'} ({gpus(milli[team])}) of {team}"
        for team, count in sorted(teams.items())
    ]
    return f"Would preempt {', '.join(parts)}."


def _lost(start: engine.Start, plan: engine.Plan, snapshot: engine.Snapshot, now: int) -> str:
    """Return what work its victims lose: since their last checkpoints, else since their starts; "" for none.

    `It would lose 12 min of work.` Of several the most that one loses, and the GPU time of all.
    """
    chosen = set(start.victims)
    rows = [row for row in snapshot.workloads if row.id in chosen and row.started_at is not None]
    lost = [now - max(row.started_at or 0, row.checkpointed_at or 0) for row in rows]
    most = max(lost, default=0) // 1000
    if most < 1:
        return ""
    if len(chosen) == 1:
        return f"It would lose {span(most)} of work."
    gpu_ms = sum(row.lost_gpu_ms for row in plan.preemptions if row.by == start.workload)
    return f"They would lose up to {span(most)} of work each, {span(gpu_ms // 1000)} of GPU time together."


def _waits(wait: engine.Wait, picture: SnapshotPicture, by: Actor) -> Preview:
    assert by.user is not None  # noqa: S101 - `prepare` refuses a submission without a person
    reader = Reader(by.user, PlanNames.of(picture.snapshot))
    explanation = without_released(reader.explanation(wait), wait.pool)
    reader.learn(explanation.sentences)
    why = reader.told(explanation)
    when = f"it would start {why.eta}" if wait.eta.earliest is not None else "when it starts is not known"
    return Preview("waits", f"Would wait; {when}.", why)
