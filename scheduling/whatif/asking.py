"""Asking what a draft would change: who may, on which picture, and one at a time in a process."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from agentlink.actions import require_operator
from agentlink.models import Node
from chamber.errors import NotVisible, Refusal
from scheduling.cycle.usage import decayed_usage
from scheduling.explain.plan_text import PlanNames
from scheduling.reading import data_sets, recent, translate
from scheduling.reading.picture import SnapshotPicture
from scheduling.reading.requests import ASKED
from scheduling.reading.snapshot import dependency_of
from scheduling.reading.translate import Circumstances
from scheduling.whatif import draft as drafting
from scheduling.whatif.desk import Desk, Work
from scheduling.whatif.draft import DraftEdits
from scheduling.whatif.effect import Effect, between
from scheduling.whatif.future import Oracle
from teams import actions
from teams.actions import PoolChanges, TeamEdit
from teams.actors import Actor
from teams.models import FairnessPolicy, Pool, PoolPolicy
from workloads.requests import SubmissionRequest
from workloads.submission import prepare

PICTURE_KEPT = timedelta(seconds=5)
"""Somebody tries one draft after the other: they are compared with the same present."""
MOST_NODES = 200


@dataclass(frozen=True, slots=True)
class DraftAnswer:
    """What a draft would change, and what it names is called."""

    effect: Effect
    names: PlanNames
    notes: tuple[str, ...] = ()


_desk: Desk[DraftAnswer] = Desk()


def of_teams(*, by: Actor, edits: Sequence[TeamEdit]) -> DraftEdits:
    """Return a draft of edits of teams; raises what saving them would be refused with."""
    return DraftEdits(teams=drafting.of_teams(actions.review_many(by=by, edits=edits)))


def of_pool(*, by: Actor, pool: Pool, version: int, changes: PoolChanges) -> DraftEdits:
    """Return a draft of changes of a pool; raises what saving them would be refused with."""
    new = actions.review_pool(by=by, pool=pool, version=version, changes=changes)
    fields = drafting.of_pool(new)
    return DraftEdits(
        pools={str(pool.pk): fields} if fields else {},
        usage=_usage(pool, new),
        notes=tuple(drafting.notes_on(pool, new)),
    )


def _usage(pool: Pool, changes: PoolChanges) -> dict[tuple[str, str], int]:
    """Return the use of teams in a pool that would begin to go by it; a picture has that of those only that do."""
    if "policy" not in changes or pool.rules.fairness is FairnessPolicy.USAGE:
        return {}
    rules = PoolPolicy.model_validate(changes["policy"])
    if rules.fairness is not FairnessPolicy.USAGE:
        return {}
    return decayed_usage({pool.pk: rules}, recent.picture(at_most=PICTURE_KEPT).taken_at)


def of_nodes(
    *,
    by: Actor,
    cordoned: Mapping[tuple[str, str], bool],
    drained: Collection[tuple[str, str]] = frozenset(),
) -> DraftEdits:
    """Return a draft that cordons nodes, takes them back, or drains them, by cluster and name (1 query)."""
    require_operator(by)
    nodes = {*cordoned, *drained}
    if len(nodes) > MOST_NODES:
        raise Refusal(f"A draft names at most {MOST_NODES} nodes, not {len(nodes)}.", field="nodes")
    named = {name for _, name in nodes}
    present = Node.objects.filter(name__in=named, gone_at__isnull=True).values_list(
        "cluster__name", "name", "pk"
    )
    ids = {(cluster, name): str(pk) for cluster, name, pk in present}
    for cluster, name in sorted(nodes):
        if (cluster, name) not in ids:
            raise NotVisible(f"There is no node {name!r} in a cluster {cluster!r}.", field="nodes")
    return DraftEdits(
        cordoned={ids[key]: value for key, value in cordoned.items()},
        drained=frozenset(ids[key] for key in drained),
    )


def of_workload(*, by: Actor, request: SubmissionRequest) -> DraftEdits:
    """Return a draft with a workload more; raises what submitting it would be refused with."""
    workload = prepare(by=by, requests=[request])[0]
    data = data_sets.of_new([workload]).get(workload.pk, ())
    around = Circumstances(dependency_of(request.needs), data=data)
    newcomer = translate.workload({name: getattr(workload, name) for name in ASKED}, around)
    return DraftEdits(newcomers=(newcomer,))


def together(drafts: Sequence[DraftEdits]) -> DraftEdits:
    """Return several drafts as one. None of them names what another does."""
    return DraftEdits(
        teams={key: value for draft in drafts for key, value in draft.teams.items()},
        pools={key: value for draft in drafts for key, value in draft.pools.items()},
        cordoned={key: value for draft in drafts for key, value in draft.cordoned.items()},
        drained=frozenset(node for draft in drafts for node in draft.drained),
        newcomers=tuple(newcomer for draft in drafts for newcomer in draft.newcomers),
        usage={key: value for draft in drafts for key, value in draft.usage.items()},
        notes=tuple(note for draft in drafts for note in draft.notes),
    )


def ask(draft: DraftEdits, *, key: Hashable, wait_seconds: float) -> DraftAnswer | None:
    """Return what the draft would change; None where that takes longer than `wait_seconds`: ask again.

    `key` stands for the draft among what is asked at this moment. Reads the tables where nobody asked it lately, and
    holds neither a lock nor a transaction while the engine decides. Raises `TooMany`.
    """
    if not draft:
        return DraftAnswer(Effect(), PlanNames({}, {}, {}), draft.notes)
    return _desk.ask(key, lambda: _work(draft), wait_seconds=wait_seconds)


def forget() -> None:
    """Forget what was asked."""
    _desk.forget()


def _work(draft: DraftEdits) -> Work[DraftAnswer]:
    picture = recent.picture(at_most=PICTURE_KEPT)
    return lambda: work_out(draft, picture)


def work_out(draft: DraftEdits, picture: SnapshotPicture) -> DraftAnswer:
    """Return what the draft would change of the picture; reads nothing else."""
    snapshot, oracle = draft.on(picture.snapshot), Oracle(picture.snapshot)
    before = oracle.future(picture.snapshot, picture.now)
    after = oracle.future(snapshot, picture.now)
    return DraftAnswer(
        effect=between(
            before,
            after,
            picture.snapshot,
            snapshot,
            newcomers=draft.newcomers,
            draining=draft.draining(picture.snapshot),
        ),
        names=PlanNames.of(snapshot),
        notes=draft.notes,
    )
