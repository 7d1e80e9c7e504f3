"""What-if over the API: a draft of edits in, the differences that it makes out; nothing is written."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import Throttled
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber import invalid
from chamber.api_document import in_query
from chamber.errors import NotVisible, Refusal
from scheduling.api import POOL
from scheduling.explain.queue import pool_for as queue_pool
from scheduling.whatif import asking, freed
from scheduling.whatif.desk import TooMany
from scheduling.whatif.draft import DraftEdits
from scheduling.whatif.effect import Change
from scheduling.whatif.shown import tell
from teams.actions import PoolChanges, ShareEdit, TeamEdit
from teams.actors import Actor
from teams.api.requests import (
    actor,
    milli_keys,
    person,
    pool_among,
    pool_for,
    pools_for,
    team_among,
    teams_for,
    values_of,
)
from teams.api.shapes import GpusField, PolicyShape, ShareInDraft, StrictSerializer, TeamInDraft
from teams.models import Pool, Team
from teams.picture import TreePicture
from workloads.admissible import completed
from workloads.requests import SubmissionRequest, Unreadable

WAIT_SECONDS = 10.0
AGAIN_SECONDS = 2


class ShareTried(ShareInDraft):
    """A change of a share that is tried."""

    version = serializers.IntegerField(
        min_value=0, required=False, help_text="Of the share you edited; without it, whatever it is."
    )


class TeamTried(TeamInDraft):
    """A change of a team and its shares that is tried."""

    version = serializers.IntegerField(
        min_value=1, required=False, help_text="Of the team you edited; without it, whatever it is."
    )
    shares = ShareTried(many=True, required=False)


class PoolTried(StrictSerializer):
    """A change of a pool that is tried; of the policy, absent keys stay as they are."""

    pool = serializers.CharField(help_text="Its slug.")
    policy = PolicyShape(required=False)
    topology = serializers.ListField(
        child=serializers.CharField(max_length=253), required=False, max_length=8
    )
    paused = serializers.BooleanField(required=False)


class NodeTried(StrictSerializer):
    """A node that is cordoned, or taken back: what it runs goes on, and it takes nothing new. Or one that is drained:
    cordoned, and its elastic work leaves."""

    cluster = serializers.CharField(max_length=253)
    node = serializers.CharField(max_length=253)
    cordoned = serializers.BooleanField(required=False)
    drained = serializers.BooleanField(required=False, default=False)


@extend_schema_field(SubmissionRequest)  # type: ignore[arg-type]  # taken as `extend_schema` takes it
class SubmissionField(serializers.JSONField):
    """A submission as `POST workloads/` takes it."""


class WhatIfDraft(StrictSerializer):
    """What is tried together."""

    teams = TeamTried(many=True, required=False)
    pools = PoolTried(many=True, required=False)
    nodes = NodeTried(many=True, required=False)
    workload = SubmissionField(required=False, help_text="A workload that nobody submitted yet.")


class PoolStateShape(serializers.Serializer[Any]):
    """A pool once things have settled."""

    capacity = GpusField(source="capacity_milli")
    slices = serializers.IntegerField(help_text="How many devices of the capacity are slices of GPUs.")
    slice_gpus = GpusField(source="slices_milli", help_text="What these slices count as, in GPUs.")
    in_use = GpusField(source="in_use_milli")
    oversubscribed = serializers.BooleanField()


class PoolEffectShape(serializers.Serializer[Any]):
    """A pool whose figures differ."""

    pool = serializers.CharField(source="pool.slug")
    before = PoolStateShape(source="effect.before")
    after = PoolStateShape(source="effect.after")


class TeamStateShape(serializers.Serializer[Any]):
    """What a team may have, and what it holds once things have settled."""

    guarantee = GpusField(source="guarantee_milli")
    ceiling = GpusField(source="ceiling_milli", allow_null=True)
    entitlement = GpusField(source="entitlement_milli")


class TeamEffectShape(serializers.Serializer[Any]):
    """A team whose figures in a pool differ; of those that you may see."""

    team = serializers.CharField(source="team.slug")
    pool = serializers.CharField(source="pool.slug")
    before = TeamStateShape(source="effect.before")
    after = TeamStateShape(source="effect.after")
    in_use_before = GpusField(source="effect.in_use_before_milli")
    in_use_after = GpusField(source="effect.in_use_after_milli")


class CountShape(serializers.Serializer[Any]):
    """How many workloads of a team share a change."""

    change = serializers.ChoiceField(choices=[change.value for change in Change])
    team = serializers.CharField()
    workloads = serializers.IntegerField()
    gpus = GpusField(source="gpus_milli")
    slices = serializers.IntegerField(
        help_text="How many slices of GPUs are among these: of MIG, or replicas."
    )
    slice_gpus = GpusField(source="slices_milli", help_text="What the slices count as, in GPUs.")


class WorkloadEffectShape(serializers.Serializer[Any]):
    """A workload for which something changes; `workload` is null where you may not know which one it is."""

    change = serializers.ChoiceField(choices=[change.value for change in Change])
    workload = serializers.CharField(source="workload.slug", default=None, allow_null=True)
    team = serializers.CharField()
    pool = serializers.CharField(source="pool.slug", default=None, allow_null=True)
    reserved = serializers.BooleanField()
    priority = serializers.IntegerField()
    gpus = GpusField(source="gpus_milli", allow_null=True)
    slices = serializers.IntegerField(help_text="How many slices of GPUs are among these.")
    by = serializers.CharField(
        help_text="For whom it yields, with or without the draft; empty if for nobody."
    )
    rule = serializers.CharField(help_text="By which right: reserved, priority or fair-share.")
    reason_before = serializers.CharField(source="before", help_text="Why it waits without the draft.")
    reason_after = serializers.CharField(source="after", help_text="Why it waits with the draft.")
    message = serializers.CharField(source="why")


class EffectShape(serializers.Serializer[Any]):
    """What a draft would change, a few cycles on; everything is compared with the same cycles without it."""

    outcome = serializers.CharField(help_text="What becomes of the draft's own workload; empty without one.")
    warnings = serializers.ListField(child=serializers.CharField())
    notes = serializers.ListField(child=serializers.CharField())
    pools = PoolEffectShape(many=True)
    teams = TeamEffectShape(many=True)
    other_teams_less = serializers.IntegerField(
        source="others_less", help_text="Teams that you may not see, entitled to less."
    )
    other_teams_more = serializers.IntegerField(source="others_more")
    counts = CountShape(many=True)
    workloads = WorkloadEffectShape(many=True, help_text="The first hundred of each change.")
    cycles = serializers.IntegerField()
    settled = serializers.BooleanField(help_text="Nothing more follows after these cycles.")


class NextRowShape(serializers.Serializer[Any]):
    """One that would start; `workload` and `owner` are null where you may not know which one it is."""

    position = serializers.IntegerField(allow_null=True)
    workload = serializers.CharField(source="workload.slug", default=None, allow_null=True)
    owner = serializers.CharField(source="workload.owner.username", default=None, allow_null=True)
    team = serializers.CharField()
    reserved = serializers.BooleanField()
    priority = serializers.IntegerField()
    gpus = GpusField(source="gpus_milli")


class NextShape(serializers.Serializer[Any]):
    """Who would start, in the order of the queue."""

    gpus = serializers.IntegerField(help_text="So many are freed.")
    idle = GpusField(source="left_milli", help_text="What of them nobody could use.")
    more = serializers.IntegerField(help_text="How many would start beside those listed.")
    kept_for = NextRowShape(
        allow_null=True,
        help_text="The first workload that would still wait, where others may not take what is idle because of it.",
    )
    results = NextRowShape(source="rows", many=True)


class WorkingShape(serializers.Serializer[Any]):
    """The answer is being worked out: ask the same again."""

    detail = serializers.CharField()


class WhatIf(APIView):
    """What a draft of edits would change."""

    token_scope = "manage"  # noqa: S105 - the scope that a token needs

    @extend_schema(request=WhatIfDraft, responses={200: EffectShape, 202: WorkingShape})
    def post(self, request: Request) -> Response:
        """Try a draft on a copy of the present and return what differs; nothing is written.

        Who may not save the edits may not try them. Answers 202 with `Retry-After` where it takes longer than ten
        seconds, and 429 where several are asked for already.
        """
        draft = _draft(request, values_of(request, WhatIfDraft))
        if not draft and not draft.notes:
            raise Refusal(
                "The draft changes nothing: name a team, a pool, a node or a workload, and a new value."
            )
        try:
            answer = asking.ask(draft, key=_key(request), wait_seconds=WAIT_SECONDS)
        except TooMany as error:
            raise Throttled(wait=AGAIN_SECONDS, detail=error.message) from error
        return _working() if answer is None else Response(EffectShape(tell(answer, person(request))).data)


class QueueNext(APIView):
    """Who would be next if GPUs were freed."""

    @extend_schema(
        responses={200: NextShape, 202: WorkingShape},
        parameters=[
            POOL,
            in_query(
                "gpus",
                "How many GPUs are freed.",
                required=True,
                type="integer",
                minimum=1,
                maximum=freed.MOST_GPUS,
            ),
        ],
    )
    def get(self, request: Request) -> Response:
        """Return who would start if so many more GPUs of the pool's commonest kind were idle together."""
        pool = queue_pool(person(request), request.query_params.get("pool"))
        if pool is None:
            raise NotVisible("There is no pool that you may see.")
        gpus = freed.gpus_asked(request.query_params.get("gpus", ""))
        try:
            found = freed.who_is_next(person(request), pool, gpus, wait_seconds=WAIT_SECONDS)
        except TooMany as error:
            raise Throttled(wait=AGAIN_SECONDS, detail=error.message) from error
        return _working() if found is None else Response(NextShape(found).data)


def _working() -> Response:
    detail = "This is being worked out; ask the same again."
    return Response({"detail": detail}, status=202, headers={"Retry-After": str(AGAIN_SECONDS)})


def _key(request: Request) -> tuple[object, str]:
    """Return what stands for this draft among what is asked."""
    body = json.dumps(request.data, sort_keys=True)
    return person(request).pk, hashlib.sha256(body.encode()).hexdigest()


def _draft(request: Request, values: dict[str, Any]) -> DraftEdits:
    """Return the draft that the body describes; raise what of it would be refused."""
    by = actor(request)
    drafts: list[DraftEdits] = []
    told = _Together()
    with told:
        _refuse_twice("pools", [each["pool"] for each in values.get("pools", [])])
    if teams := values.get("teams"):
        edits = _edits(request, teams, told)
        with told:
            _refuse_twice("teams", [each["team"] for each in teams])
            drafts.append(asking.of_teams(by=by, edits=edits))
    for index, each in enumerate(values.get("pools", [])):
        with told:
            pool = pool_for(request, each.pop("pool"), field=f"pools[{index}].pool")
            if "policy" in each:
                each["policy"] = {**pool.rules.model_dump(mode="json"), **each["policy"]}
            changes = cast("PoolChanges", each)
            drafts.append(asking.of_pool(by=by, pool=pool, version=pool.version, changes=changes))
    if nodes := values.get("nodes"):
        keys = [(each["cluster"], each["node"]) for each in nodes]
        with told:
            _refuse_twice("nodes", [" ".join(key) for key in keys])
            drafts.append(_nodes(by, dict(zip(keys, nodes, strict=True))))
    if "workload" in values:
        with told:
            drafts.append(asking.of_workload(by=by, request=_submission(by, values["workload"])))
    told.require_none()
    return asking.together(drafts)


class _Together:
    """Collects what parts of a draft are refused with, so that all is told at once."""

    def __init__(self) -> None:
        self._refused: list[Refusal] = []

    def __enter__(self) -> None:
        """Begin with a part."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Note the refusal of a part; anything else goes on."""
        if isinstance(error, Refusal):
            self._refused.append(error)
        return isinstance(error, Refusal)

    def require_none(self) -> None:
        """Raise all that was refused as one: of the kind of the first, with a sentence for each place."""
        if not self._refused:
            return
        first = self._refused[0]
        first.message = invalid.together([each.message for each in self._refused])
        first.fields = {place: text for each in self._refused for place, text in each.fields.items()}
        raise first


def _submission(by: Actor, given: object) -> SubmissionRequest:
    try:
        return SubmissionRequest.parse(given)
    except Unreadable as unreadable:
        raise completed(unreadable, by) from unreadable


def _nodes(by: Actor, nodes: dict[tuple[str, str], dict[str, Any]]) -> DraftEdits:
    for (_, name), values in nodes.items():
        if ("cordoned" in values) == values["drained"]:
            raise Refusal(
                f"Say of node {name!r} either whether it is cordoned or that it is drained.", field="nodes"
            )
    cordoned = {key: values["cordoned"] for key, values in nodes.items() if "cordoned" in values}
    return asking.of_nodes(by=by, cordoned=cordoned, drained=nodes.keys() - cordoned)


def _refuse_twice(field: str, names: Sequence[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise Refusal(
                f"A draft names each of its {field} once; {name!r} comes {times} times.", field=field
            )


def _edits(request: Request, rows: list[dict[str, Any]], told: _Together) -> list[TeamEdit]:
    """Return the edits of those teams and pools that are there; note in `told` which are not."""
    teams = teams_for(request, [row["team"] for row in rows])
    picture, pools, edits = TreePicture.load(), pools_for(request), []
    for index, row in enumerate(rows):
        slug = row["team"]
        for number, share in enumerate(row.get("shares", [])):
            with told:
                pool_among(pools, share["pool"], field=f"teams[{index}].shares[{number}].pool")
        row["shares"] = [share for share in row.get("shares", []) if share["pool"] in pools]
        with told:
            team = team_among(request, teams, slug, field=f"teams[{index}].team")
            edits.append(_edit(team, row, picture, pools))
    return edits


def _edit(team: Team, row: dict[str, Any], picture: TreePicture, pools: dict[str, Pool]) -> TeamEdit:
    values = milli_keys(
        {key: value for key, value in row.items() if key not in {"team", "shares"}}, "maximum"
    )
    version = values.pop("version", team.version)
    shares = []
    for share in row.get("shares", []):
        pool = pools[share["pool"]]
        given = {key: value for key, value in share.items() if key not in {"pool", "version"}}
        changes = milli_keys(given, "reservation", "maximum")
        stored = picture.quota(pool.pk, team.pk).version
        shares.append(
            ShareEdit(pool=pool, version=share.get("version", stored), changes=cast("Any", changes))
        )
    return TeamEdit(team=team, version=version, changes=cast("Any", values), shares=tuple(shares))
