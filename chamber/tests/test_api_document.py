"""The OpenAPI document: stored as the code gives it, each operation described whole, its answers and their errors."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator

from chamber import __version__
from chamber.api import Schema
from chamber.api_document import PROBLEM, ROOMS


def test_the_document_is_generated_without_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    GENERATOR_STATS.reset()
    SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]

    assert capsys.readouterr().err == ""


DOCUMENT = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
OPERATIONS = {
    operation["operationId"]: operation
    for operations in DOCUMENT["paths"].values()
    for operation in operations.values()
}
BOUNDS = ({"minimum", "maximum"}, {"minLength"}, {"maxLength"}, {"pattern"}, {"enum"})


def errors_of(name: str) -> set[str]:
    return {status for status in OPERATIONS[name]["responses"] if status >= "400"}


def test_the_stored_document_is_what_the_code_gives(tmp_path: Path) -> None:
    made = tmp_path / "openapi.yaml"
    call_command("spectacular", file=str(made))

    stored = Path(settings.BASE_DIR, "docs", "openapi.yaml").read_text()
    assert stored == made.read_text(), (
        "docs/openapi.yaml is not what the code gives: run `make openapi`, and commit it."
    )


def test_the_document_names_no_server_but_the_one_that_gives_it() -> None:
    assert DOCUMENT["info"]["version"] == __version__
    assert DOCUMENT["servers"] == [{"url": "/"}]
    assert [tag["name"] for tag in DOCUMENT["tags"]] == [name for name, _ in ROOMS.values()]


def test_each_operation_has_an_id_of_its_own() -> None:
    assert len(OPERATIONS) == sum(len(operations) for operations in DOCUMENT["paths"].values())


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_is_described(name: str) -> None:
    operation = OPERATIONS[name]
    assert re.fullmatch("[a-z]+(_[a-z]+)*", name)
    assert re.fullmatch(r"[A-Z].{5,199}[^.]", operation["summary"])
    assert operation["description"]
    assert len(operation["tags"]) == 1
    assert operation["tags"][0] in {tag for tag, _ in ROOMS.values()}


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_parameter_says_what_it_is_and_what_it_may_be(name: str) -> None:
    for parameter in OPERATIONS[name].get("parameters", []):
        assert parameter["description"], parameter
        schema = parameter["schema"].get("items", parameter["schema"])
        bounded = any(bounds <= schema.keys() for bounds in BOUNDS)
        assert bounded or schema["type"] == "boolean" or schema.get("format") == "uuid", parameter


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_error_is_a_problem(name: str) -> None:
    for status in errors_of(name):
        told = DOCUMENT["components"]["responses"][f"Problem{status}"]
        assert OPERATIONS[name]["responses"][status] == {"$ref": f"#/components/responses/Problem{status}"}
        assert told["content"][PROBLEM]["schema"] == {"$ref": "#/components/schemas/Problem"}
        assert told["description"].endswith(".")


def test_errors_follow_from_what_an_operation_takes() -> None:
    always = {"400", "401", "403", "406", "422", "429", "503"}
    body = {"413", "415"}
    assert errors_of("version_get") == always
    assert errors_of("teams_get") == always | {"404"}
    assert errors_of("clusters_list") == always | {"404"}, "a cursor may be none"
    assert errors_of("teams_archive") == always | {"404", "409"}
    assert errors_of("teams_change") == always | body | {"404", "409", "412", "428"}
    assert errors_of("team_edits") == always | body | {"404", "409", "412"}
    assert errors_of("workloads_create") == always | body | {"404", "409"}
    assert errors_of("workloads_watch_get") == always | {"404", "410"}
    assert errors_of("login") == always | body | {"404", "409"}


def test_answers_of_one_version_have_its_etag() -> None:
    answers = {
        (name, status)
        for name, operation in OPERATIONS.items()
        for status, answer in operation["responses"].items()
        if "ETag" in answer.get("headers", {})
    }
    assert {("teams_get", "200"), ("teams_create", "201"), ("workloads_hold", "200")} <= answers
    assert not {name for name, _ in answers} & {"teams_list", "version_get", "teams_members_change"}


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


@pytest.mark.django_db
def test_a_form_that_there_is_not_is_refused_in_json(client: Client) -> None:
    answer = client.get("/api/v1/schema/?format=toml")
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, "application/problem+json")
    assert answer.json()["detail"] == "'toml' is not allowed for format; allowed are 'yaml' or 'json'."
