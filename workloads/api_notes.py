"""The door for pods: what an attempt says of itself, by its own token."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber import invalid, limits, notes
from chamber.bodies import Body
from chamber.errors import NotAllowed, Refusal
from chamber.notes import BadNote, Note, NoteProblem, Read, shown
from chamber.words import nearest
from teams.actors import Actor, Via
from workloads import noting
from workloads.attempt_tokens import AttemptAuthentication
from workloads.models import Attempt
from workloads.noting import MOST_LINKS, HeardNote, SaidNotes
from workloads.shapes import NotesShape
from workloads.shown_notes import shown_notes

PODS = Actor(name="its pods", via=Via.API)
FIELDS = ("checkpoint", "progress", "links")
CHECKPOINT = ("step", "at", "attempt")


class CheckpointBody(Body):
    """A checkpoint: its step, and if need be when it was saved and by which attempt."""

    step = serializers.IntegerField(min_value=0, max_value=notes.MOST_STEP)
    at = serializers.DateTimeField(required=False, help_text="Else now.")
    attempt = serializers.IntegerField(
        required=False,
        min_value=1,
        help_text="What CHAMBER_ATTEMPT says: it is refused where it is another's.",
    )


class NotesBody(Body):
    """What an attempt says of itself: at least one of these."""

    checkpoint = CheckpointBody(required=False)
    progress = serializers.FloatField(required=False, min_value=0, max_value=1)
    links = serializers.DictField(
        child=serializers.CharField(max_length=notes.LONGEST_URL),
        required=False,
        help_text=f"Addresses by name, at most {MOST_LINKS}.",
    )


class AttemptNotesView(APIView):
    """What one attempt says of itself: checkpoints, progress, links."""

    authentication_classes = [AttemptAuthentication]
    permission_classes = [AllowAny]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse other methods before it is asked whose the token is."""
        if request.method not in self.allowed_methods:
            self.http_method_not_allowed(request)
        super().initial(request, *args, **kwargs)

    @extend_schema(request=NotesBody, responses={200: NotesShape, 403: None})
    def post(self, request: Request, attempt_id: UUID) -> Response:
        """Take it in: all of it, or nothing where something is wrong. The token is the attempt's own.

        What is older than what is known changes nothing.
        """
        attempt = request.auth
        if not isinstance(attempt, Attempt) or attempt.pk != attempt_id:
            raise NotAllowed(f"The token is not that of attempt {attempt_id}: it speaks for its own alone.")
        limits.count(limits.NOTES, attempt.pk)
        now = timezone.now()
        read = _read(request.data)
        wrong = {field: each for field, each in read if isinstance(each, BadNote)}
        if not wrong:
            wrong = _take(attempt, [HeardNote(each, now) for _, each in read if isinstance(each, Note)], now)
        if wrong:
            with transaction.atomic():
                noting.take_notes({attempt.pk: SaidNotes(bad=list(wrong.values()))}, by=PODS, at=now)
            told = {field: bad.message for field, bad in wrong.items()}
            raise Refusal(" ".join(told.values()), fields=told)
        stored = Attempt.objects.select_related("notes").get(pk=attempt.pk)
        return Response(NotesShape(shown_notes(stored, now)).data)


def _take(attempt: Attempt, heard: Sequence[HeardNote], now: datetime) -> dict[str, BadNote]:
    """Store the notes, all or none; return what is wrong, by field."""
    with transaction.atomic():
        bad = noting.take_notes({attempt.pk: SaidNotes(heard)}, by=PODS, at=now).get(attempt.pk, [])
        if bad:
            transaction.set_rollback(True)
    return {"links" if each.problem is NoteProblem.TOO_MANY else "checkpoint": each for each in bad}


def _read(body: object) -> list[tuple[str, Read]]:
    """Return the notes of a body, each with its field; raise a `Refusal` where it is no body of notes."""
    found = _mapping(body, "The body", FIELDS)
    if not found:
        raise Refusal(f"The body says nothing: give one of {', '.join(FIELDS)}.")
    read: list[tuple[str, Read]] = []
    if "checkpoint" in found:
        said = _mapping(found["checkpoint"], "checkpoint", CHECKPOINT)
        read.append(
            ("checkpoint", notes.checkpoint(said.get("step", ""), said.get("at"), said.get("attempt")))
        )
    if "progress" in found:
        read.append(("progress", notes.progress(found["progress"])))
    if "links" in found:
        links = _mapping(found["links"], "links", ())
        if len(links) > MOST_LINKS:
            raise Refusal(f"links has {len(links)} entries; at most {MOST_LINKS} are allowed.", field="links")
        read += [("links", notes.link(name, url)) for name, url in links.items()]
    return read


def _mapping(value: object, field: str, known: Sequence[str]) -> Mapping[str, object]:
    """Return a mapping that has no other keys than those that are known, any where none are."""
    if not isinstance(value, Mapping):
        raise Refusal(invalid.told("model_type", field, value), field=field if known is not FIELDS else None)
    for name in value:
        if known and name not in known:
            raise Refusal(
                f"There is no field {shown(name)}.{nearest(str(name), known)}", field=str(name)[:60]
            )
    return value
