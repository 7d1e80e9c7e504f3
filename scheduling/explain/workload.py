"""Why a workload waits, when it starts, what happened to it: from the plan of the last cycle, when it is asked."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils import timezone

from agentlink.models import Cluster, Node
from chamber.words import clock_time
from scheduling import engine
from scheduling.engine.reasons import sentences as reasons
from scheduling.explain import last_cycle, not_ready, scaling, silence, taken
from scheduling.explain.explanation import Explanation, kind_of, label_inside
from scheduling.explain.last_cycle import LastCycle
from scheduling.explain.placed import NOTHING, PODS_BEGIN, in_silent_clusters, pods_begin
from scheduling.explain.reader import Reader, called
from scheduling.explain.silence import CALL_AN_OPERATOR, DEAF, START_LIVE, Silence
from teams.permissions import Permission, may
from workloads import advice, dependencies, needs, statuses
from workloads.actions import is_controlled_by
from workloads.models import Status, Workload
from workloads.needs import NeedOutcome, UnmetNeed
from workloads.reasons import CREDENTIAL_UNUSABLE, JOB_AGAIN, LASTING, REFUSED, held_until, of_displaced

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

NOT_LOOKED_AT = Explanation(
    code="new",
    sentence="The scheduler has not looked at it yet.",
    kind="wait",
    next_step="Nothing to do; it does so within seconds.",
)
UNDECIDED = "scheduler-silent"
"""The reason of one that no cycle has looked at, while none ends."""
NO_ETA = "not known"
OF_NODES = frozenset(
    {
        engine.ReasonCode.DATA_ELSEWHERE.value,
        engine.ReasonCode.NO_MATCHING_GPU_TYPE.value,
        engine.ReasonCode.NO_MATCHING_NODES.value,
        engine.ReasonCode.LARGER_THAN_ANY_NODE.value,
        engine.ReasonCode.LARGER_THAN_POOL.value,
        engine.ReasonCode.TOPOLOGY_IMPOSSIBLE.value,
    }
)
"""Reasons that say that the nodes of a pool will not do."""
AFTER_OTHERS = engine.ReasonCode.WAITING_FOR_DEPENDENCY.value
OF_DEPENDENCIES = frozenset({AFTER_OTHERS, dependencies.FAILED})
HELD = Explanation(code="held", sentence="It is on hold.", kind="change", next_step="Release the hold.")
EMPTYING = "waiting-for-victims"
STOPPING = Explanation(
    code=EMPTYING,
    sentence="It has its GPUs; it starts as soon as the workloads that are still stopping there are gone.",
    kind="wait",
    next_step="Nothing to do.",
)
LET_GO = Explanation(
    code="pods-to-be-created",
    sentence="Its GPUs are free, and the cluster has been told to create its pods.",
    kind="wait",
    next_step="Nothing to do.",
    eta="in a moment",
)


def explain(workload: Workload, user: "User | AnonymousUser") -> Explanation | None:
    """Return why the workload waits or how it ended, for this reader; None where there is nothing to explain.

    Of one that was displaced, and whose pods may still be there, it says that (1 query); of one that says no more than
    that its pods are there, which of them are on nodes that are not ready (1 query). Of one that waits for GPUs, which
    of them others have than workloads (1 query).
    """
    if workload.status == Status.COMPLETED:
        return _completed(workload)
    if workload.status in (Status.STARTING, Status.RUNNING):
        displaced = _displaced(workload)
        if displaced is not None:
            return displaced
    last = last_cycle.last()
    found = explain_many([workload], user, last=last).get(workload.pk)
    if found is None or found.code == scaling.CODE or (found.code, found.next_step) == (PODS_BEGIN, NOTHING):
        found = _on_unready_nodes(workload) or found
    if found is None:
        return None
    if workload.status == Status.PENDING and last is not None:
        found = _with_taken(workload, found, last, user)
    return _advised(workload, found, user)


def _with_taken(
    workload: Workload, explanation: Explanation, last: LastCycle, user: "User | AnonymousUser"
) -> Explanation:
    """Return the reason with the GPUs of its pool that others have than workloads."""
    wait = last.waits.get(str(workload.pk))
    more = taken.told(explanation.code, wait.pool, user) if wait is not None else ""
    return replace(explanation, sentence=f"{explanation.sentence} {more}") if more else explanation


def _on_unready_nodes(workload: Workload) -> Explanation | None:
    told = not_ready.told(workload)
    return told and Explanation(not_ready.CODE, told[0], "wait", next_step=told[1])


def _advised(workload: Workload, explanation: Explanation, user: "User | AnonymousUser") -> Explanation:
    """Return the explanation with advice that this reader can follow, or that says who can."""
    if explanation.code in OF_DEPENDENCIES and workload.is_open:  # told for this reader already
        return explanation
    if advice.is_for(explanation.next_step, workload, user):
        return explanation
    return replace(
        explanation, next_step=advice.of_others(explanation.next_step, workload), is_for_reader=False
    )


def _displaced(workload: Workload) -> Explanation | None:
    why = of_displaced(workload.attempt)
    if why is None:
        return None
    return Explanation(code=why.code, sentence=why.message, kind=why.kind, next_step=why.next_step)


def explain_many(
    workloads: Sequence[Workload], user: "User | AnonymousUser", *, last: LastCycle | None
) -> dict[UUID, Explanation]:
    """Return an explanation for each workload that has one, from this cycle (1 query, where workloads are named).

    A Pending or Queued one has one always, any other open one where its cluster is silent, or it runs with fewer pods
    than it asks for. Whether the reader may see
    the workloads is the caller's business. Those with GPUs take a query more, those whose pods begin another, those
    after others that have not completed another.
    """
    reader = Reader(user, last.names if last else None)
    silent, starting, unknown = in_silent_clusters(workloads), pods_begin(workloads), silence.look()
    partly = {
        key: Explanation(scaling.CODE, sentence, "wait", next_step=scaling.NEXT_STEP)
        for key, sentence in scaling.sentences(workloads, last, unknown).items()
    }
    found = {
        workload.pk: silent.get(workload.pk)
        or starting.get(workload.pk)
        or partly.get(workload.pk)
        or _told(workload, _of(workload, last, reader), unknown)
        for workload in workloads
    }
    _name_dependencies({workload.pk: workload for workload in workloads}, found, last, user)
    if last is not None:
        pools = {key: wait.pool for key in found if (wait := last.waits.get(str(key))) is not None}
        _name_released(found, pools)
    reader.learn(text for explanation in found.values() if explanation for text in explanation.sentences)
    return {key: reader.told(explanation) for key, explanation in found.items() if explanation}


def _name_dependencies(
    workloads: Mapping[UUID, Workload],
    found: dict[UUID, Explanation | None],
    last: LastCycle | None,
    user: "User | AnonymousUser",
) -> None:
    """Put in what those wait for that start after others, how these stand, and what the reader can do about that (1
    query, none without any).
    """
    after = {
        key: told
        for key, told in found.items()
        if told is not None and told.code in OF_DEPENDENCIES and workloads[key].is_open
    }
    for key, needed in dependencies.unmet(after).items():
        told, failed = after[key], [row for row in needed if not row.is_open]
        if told.code == AFTER_OTHERS:
            found[key] = _after_open(workloads[key], told, needed, last, user)
        elif failed:
            found[key] = _after_failed(workloads[key], told, failed, user)
    for key, others in needs.unmet(after).items():
        found[key] = _after_ends(workloads[key], found[key] or after[key], others, user)


def _after_ends(
    waiting: Workload, told: Explanation, unmet: Sequence[UnmetNeed], user: "User | AnonymousUser"
) -> Explanation:
    """Return why one waits that starts after arrays, or after other ends than completed, with what can be done where
    one of them will not come by itself.
    """
    failed = told.code != AFTER_OTHERS
    shown = [need for need in unmet if not failed or need.outcome is NeedOutcome.NEVER]
    names = [
        need.slug if may(user, Permission.VIEW_WORKLOADS, need.team) else _unseen(need) for need in shown
    ]
    sentences = [need.sentence(name) for need, name in zip(shown, names, strict=True)]
    steps = [step for need, name in zip(shown, names, strict=True) if (step := need.step(name))]
    general = reasons.DID_NOT_COMPLETE if failed else reasons.WAITS_FOR_OTHERS
    if general in told.sentence and sentences:
        step = f"{'. '.join(steps)}.{_or_without(waiting, user)}" if steps else told.next_step
        return replace(told, sentence=told.sentence.replace(general, " ".join(sentences)), next_step=step)
    return replace(told, sentence=" ".join([told.sentence, *sentences]))


def _unseen(need: UnmetNeed) -> str:
    """Return what anybody may know of what is needed."""
    return f"of {need.team.name}" if need.is_array else f"a workload of {need.team.name}"


def _after_failed(
    waiting: Workload, told: Explanation, failed: Sequence[Workload], user: "User | AnonymousUser"
) -> Explanation:
    """Return why one waits that starts after these, which ended otherwise than Completed."""
    named = dependencies.sentence(failed, [called(row, user) for row in failed])
    own = [row.slug for row in failed if is_controlled_by(user, row)]
    step = f"{dependencies.requeue(own, others=len(failed) - len(own))}.{_or_without(waiting, user)}"
    return replace(told, sentence=told.sentence.replace(reasons.DID_NOT_COMPLETE, named), next_step=step)


def _after_open(
    waiting: Workload,
    told: Explanation,
    needed: Sequence[Workload],
    last: LastCycle | None,
    user: "User | AnonymousUser",
) -> Explanation:
    """Return why one waits that starts after these, which have not ended; advice where some do not start by
    themselves.
    """
    states = [_state(row, last) for row in needed]
    named = dependencies.sentence(needed, [called(row, user) for row in needed], states)
    held = [row for row in needed if row.held and row.status == Status.PENDING]
    stuck = [row for row in needed if row not in held and _reason_stays(row, last)]
    told = replace(told, sentence=told.sentence.replace(reasons.WAITS_FOR_OTHERS, named))
    if told.next_step == CALL_AN_OPERATOR or not (held or stuck):
        return told
    own = [row.slug for row in held if is_controlled_by(user, row)]
    seen = [row.slug for row in stuck if may(user, Permission.VIEW_WORKLOADS, row.team)]
    steps = [
        dependencies.release(own, others=len(held) - len(own)),
        dependencies.look_after(seen, others=len(stuck) - len(seen)),
    ]
    step = f"{'. '.join(filter(None, steps))}.{_or_without(waiting, user)}"
    return replace(told, kind="change", next_step=step)


def _state(needed: Workload, last: LastCycle | None) -> str:
    """Return how one stands that others start after: its status, and what keeps it that time does not mend."""
    status = needed.get_status_display()
    if needed.status != Status.PENDING:
        return status
    if needed.held:
        return f"{status}, on hold"
    reason = _reason_stays(needed, last)
    return f"{status}, {label_inside(reason)}" if reason else status


def _reason_stays(needed: Workload, last: LastCycle | None) -> str:
    """Return the code of what keeps one from starting that time alone does not mend: somebody has to change something,
    or it starts after others itself; else empty.
    """
    if needed.status != Status.PENDING:
        return ""
    wait = last.waits.get(str(needed.pk)) if last is not None else None
    code = wait.reason.code.value if wait is not None else needed.reason_code
    return code if code == AFTER_OTHERS or kind_of(code) != engine.ReasonKind.WAIT.value else ""


def _or_without(waiting: Workload, user: "User | AnonymousUser") -> str:
    """Return the other way for those who control one that starts after others."""
    if not is_controlled_by(user, waiting):
        return ""
    cancel = f"cancel this one (chamber cancel {waiting.slug})"
    return f" Or {cancel} and submit it without the dependency: Clone on its page."


def _name_released(found: dict[UUID, Explanation | None], pools: Mapping[UUID, str | None]) -> None:
    """Put in which clusters were let go of, whose nodes were in the pool that a reason speaks of (1 query, none where
    no reason speaks of nodes)."""
    of_nodes = {key: pools.get(key) for key, told in found.items() if told and told.code in OF_NODES}
    released = _released({pool for pool in of_nodes.values() if pool})
    for key, pool in of_nodes.items():
        told, clusters = found[key], released.get(pool or "")
        if told is not None and clusters:
            found[key] = _without(told, clusters)


def without_released(explanation: Explanation, pool: str | None) -> Explanation:
    """Return a reason with the clusters that were let go of, whose nodes were in the pool that it speaks of (1 query,
    none where it does not speak of nodes)."""
    clusters = _released({pool}).get(pool, []) if pool and explanation.code in OF_NODES else []
    return _without(explanation, clusters) if clusters else explanation


def _released(pools: Collection[str]) -> dict[str, list[Cluster]]:
    """Return the clusters that were let go of, by the pools in which they had nodes (1 query, none without pools; 1
    more where there are such).
    """
    found: dict[str, list[Cluster]] = {}
    if not pools:
        return found
    nodes = Node.objects.filter(pool__in=[UUID(pool) for pool in pools], cluster__released_at__isnull=False)
    pairs = set(nodes.order_by().values_list("pool", "cluster").distinct())
    clusters = Cluster.objects.in_bulk({cluster for _, cluster in pairs}) if pairs else {}
    for pool, cluster in sorted(pairs, key=lambda pair: clusters[pair[1]].name):
        found.setdefault(str(pool), []).append(clusters[cluster])
    return found


def _without(explanation: Explanation, clusters: Sequence[Cluster]) -> Explanation:
    """Return a reason that speaks of a pool's nodes, with the clusters whose nodes it has no more."""
    told = [
        f"The cluster {cluster.name} was released by an operator at {clock_time(cluster.released_at)}: its nodes are "
        "gone."
        for cluster in clusters
        if cluster.released_at is not None
    ]
    names = ", ".join(cluster.name for cluster in clusters)
    step = explanation.next_step.partition(", or ask an operator")[0].rstrip(".")
    step = step[:1].lower() + step[1:]
    return replace(
        explanation,
        sentence=" ".join([explanation.sentence, *told]),
        next_step=f"Ask an operator to connect {names} again (start its agent), or {step}.",
    )


def _told(workload: Workload, explanation: Explanation | None, unknown: Silence) -> Explanation | None:
    """Return an explanation as it may be told while no cycle ends: no start is promised then."""
    if explanation is None or explanation.code == HELD.code:
        return explanation
    if unknown.deaf and explanation.code == engine.ReasonCode.CLUSTER_OFFLINE:
        step = f"{START_LIVE}: the agents connect again by themselves."
        explanation = replace(explanation, sentence=f"{explanation.sentence} {DEAF}", next_step=step)
    if not unknown.undecided or workload.status != Status.PENDING:
        return explanation
    if explanation is NOT_LOOKED_AT:
        return replace(
            NOT_LOOKED_AT,
            code=UNDECIDED,
            sentence=f"No cycle has looked at it yet. {unknown.scheduler}",
            kind="admin",
            next_step=CALL_AN_OPERATOR,
            eta=NO_ETA,
        )
    return replace(
        explanation,
        sentence=f"{unknown.scheduler} Before that: {explanation.sentence}",
        kind="admin",
        next_step=CALL_AN_OPERATOR,
        position=None,
        eta=NO_ETA,
        starts_at=None,
        starts_by=None,
    )


def _of(workload: Workload, last: LastCycle | None, reader: Reader) -> Explanation | None:
    key = str(workload.pk)
    if workload.status == Status.PENDING:
        return _of_waiting(workload, last.waits.get(key) if last else None, reader)
    if workload.status == Status.QUEUED:
        if workload.reason_code != EMPTYING:
            return LET_GO
        reason = last.placed(key) if last else None
        return reader.of_reason(reason) if reason else STOPPING
    return _stored(workload) if workload.reason and not workload.is_open else None


def _of_waiting(workload: Workload, wait: engine.Wait | None, reader: Reader) -> Explanation:
    ended = _ended_before(workload, wait)
    if ended is not None and reader.may_see(workload):  # a cluster's words name what it refused
        return ended
    if workload.held and (wait is None or wait.reason.code is not engine.ReasonCode.HELD):
        return HELD
    return NOT_LOOKED_AT if wait is None else reader.explanation(wait)


def _completed(workload: Workload) -> Explanation:
    """Return where the results, logs and figures are of one that completed."""
    return Explanation(
        code=Status.COMPLETED.value,
        sentence=statuses.COMPLETED.meaning,
        kind="done",
        next_step=f"Its results are where its command wrote them. Its logs: chamber logs {workload.slug}. Its GPU use "
        f"and its events: chamber describe {workload.slug}, or its page.",
    )


def _stored(workload: Workload) -> Explanation:
    """Return how its last attempt ended, as its row has it."""
    ended = workload.reason
    return Explanation(
        code=str(ended.get("code", workload.reason_code)),
        sentence=str(ended.get("message", "")),
        kind="failed",
        next_step=str(ended.get("next_step", "")),
        level=str(ended.get("level", "")),
    )


def _ended_before(workload: Workload, wait: engine.Wait | None) -> Explanation | None:
    """Return how the last attempt ended of one that is only tried again later, or not before somebody releases it; None
    where it waits for something else, or nothing is told of that attempt.
    """
    if not workload.reason or workload.reason.get("kind") not in (REFUSED, "failed"):
        return None
    stored = _stored(workload)
    refused = workload.reason["kind"] == REFUSED
    position = wait.position if wait is not None else None
    if workload.held and stored.code == CREDENTIAL_UNUSABLE:
        return replace(stored, kind="change", position=position, eta="not before that is put right")
    if workload.held and refused:
        unless = ", unless its Job was created again" if JOB_AGAIN in stored.next_step else ""
        release = f"Then release it, on its page or by `chamber release {workload.slug}`{unless}."
        return replace(
            stored,
            kind="admin",
            sentence=(
                f"{_stopped(stored.sentence)} It was refused so often that it is on hold: {held_until(stored.code)}."
            ),
            next_step=f"{stored.next_step} {release}",
            position=position,
            eta="not before the hold is released",
        )
    until = workload.backoff_until
    if workload.held or until is None or until <= timezone.now():
        return None
    lasts = refused and stored.code in LASTING
    return replace(
        stored,
        kind="admin" if lasts else "wait",
        sentence=f"{_stopped(stored.sentence)} It is tried again at {until:%H:%M:%S} UTC.",
        position=position,
        starts_at=until,
        eta=f"not before {until:%H:%M:%S} UTC",
    )


def _stopped(sentence: str) -> str:
    """Return a sentence with its full stop: those that end with a command to paste have none."""
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
