"""The OpenAPI document: of the promised version, without a doubt in it, and naming how to sign in."""

import pytest
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator


def test_the_document_is_generated_without_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    GENERATOR_STATS.reset()
    SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]

    assert capsys.readouterr().err == ""


def test_anybody_may_read_the_document(client: Client) -> None:
    answer = client.get("/api/v1/schema/?format=json")

    document = answer.json()
    assert document["openapi"] == "3.1.0"
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert document["paths"]["/api/v1/workloads/"]["post"]["security"] == [{"token": []}, {"cookieAuth": []}]
