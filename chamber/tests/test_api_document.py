"""The OpenAPI document: of the promised version, without a doubt in it, and naming how to sign in."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator

from chamber.api import Schema


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


def test_however_many_ask_the_document_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    make = SchemaGenerator.get_schema

    def counts(self: SchemaGenerator, *args: Any, **kwargs: Any) -> Any:
        made.append(self)
        time.sleep(0.02)  # the others come meanwhile
        return make(self, *args, **kwargs)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(SchemaGenerator, "get_schema", counts)
    monkeypatch.setattr(Schema, "_made", {})
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(Client().get, "/api/v1/schema/") for _ in range(4)]
    assert [answer.result().status_code for answer in asked] == [200] * 4
    assert len(made) == 1


def test_once_it_is_made_nobody_waits_for_it(client: Client) -> None:
    client.get("/api/v1/schema/?format=json")
    with Schema._making:
        answer = client.get("/api/v1/schema/?format=json")
    assert answer["Content-Disposition"] == 'inline; filename="Chamber.json"'
    assert "/api/v1/schema/" not in answer.json()["paths"]
