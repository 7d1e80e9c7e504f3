"""What would become of a submission if it were made now, over the API; nothing is written."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduling.api import EtaShape, ReasonShape
from scheduling.whatif.preview import Preview, preview
from teams.api.requests import actor
from workloads.admissible import completed
from workloads.requests import Unreadable, parse_all
from workloads.shapes import SUBMISSION
from workloads.submission import prepare

MOST = 10
"""Workloads of one request of which it is worked out what becomes of them, each as if it alone were submitted."""


class PreviewShape(serializers.Serializer[Any]):
    """What would become of one workload."""

    name = serializers.CharField()
    outcome = serializers.ChoiceField(choices=["starts", "preempts", "waits"])
    message = serializers.CharField(help_text="In words, with what it gets, whom it would preempt, or when.")
    reason = ReasonShape(allow_null=True, help_text="Why it would wait; null where it starts.")
    eta = EtaShape(allow_null=True)


class PreviewsShape(serializers.Serializer[Any]):
    """What would become of each, as if it alone were submitted."""

    workloads = PreviewShape(many=True)
    others = serializers.IntegerField(help_text=f"How many more are right, beyond the first {MOST}.")


class SubmissionPreview(APIView):
    """What would become of a submission."""

    token_scope = "submit"  # noqa: S105 - the scope that a token needs

    @extend_schema(operation_id="preview_create", request=SUBMISSION, responses=PreviewsShape)
    def post(self, request: Request) -> Response:
        """Check a submission as `POST workloads/` does, and say what the next cycle would do with it.

        Nothing is written.
        """
        try:
            asked = parse_all(request.data, may_be_dry=True)
        except Unreadable as unreadable:
            raise completed(unreadable, actor(request)) from unreadable
        prepare(by=actor(request), requests=asked)
        told = [_told(each.name, preview(by=actor(request), request=each)) for each in asked[:MOST]]
        body = {"workloads": told, "others": max(0, len(asked) - MOST)}
        return Response(PreviewsShape(body).data)


def _told(name: str, found: Preview) -> dict[str, Any]:
    return {
        "name": name,
        "outcome": found.outcome,
        "message": found.sentence,
        "reason": found.why,
        "eta": found.why,
    }
