"""The API's answer to which version this is."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agentlink import protocol
from chamber import __version__


class VersionSerializer(serializers.Serializer[Any]):
    """The version of this server, and of the protocol that it speaks with agents."""

    version = serializers.CharField()
    protocol = serializers.IntegerField()


class Version(APIView):
    """Which version answers."""

    @extend_schema(responses=VersionSerializer)
    def get(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature
        """Return the version, to whoever is signed in."""
        return Response(VersionSerializer({"version": __version__, "protocol": protocol.VERSION}).data)
