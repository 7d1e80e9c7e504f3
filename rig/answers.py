"""Holds each answer that a test gets from the API against the OpenAPI document: what is answered is what it says."""

import functools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from django.test import AsyncClient, Client
from django.urls import Resolver404, resolve
from jsonschema import Draft202012Validator, FormatChecker

DOCUMENT = Path(__file__).parents[1] / "docs" / "openapi.yaml"
API = "/api/v1/"
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
NOT_OF_AN_OPERATION = 405
FAULT = 500
MOST_KNOWN = 5000
"""Answers that are known to be right: those that come again, word for word, are not read again."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document:
    """The document, as it is stored."""

    def __init__(self, path: Path = DOCUMENT) -> None:
        self._whole = yaml.load(path.read_text(), Loader=LOADER)  # noqa: S506 - it is a safe one
        self._closed = _closed(self._whole["components"])
        self._validators: dict[tuple[str, str, str, str], Draft202012Validator] = {}
        self._right: set[tuple[tuple[str, str, str, str], bytes]] = set()

    def problems(self, method: str, path: str, response: Any) -> list[str]:
        """Return in what an answer differs from the document; nothing where it says nothing of the address."""
        try:
            template = API + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", resolve(path).route.removeprefix(API[1:]))
        except Resolver404:
            return []
        operation = self._whole["paths"].get(template, {}).get(method.lower())
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        if operation is None or response.status_code == NOT_OF_AN_OPERATION or kind == "text/html":
            return []
        told = operation["responses"].get(str(response.status_code))
        if told is None:
            return [f"{response.status_code} is not among {', '.join(operation['responses'])}"]
        told = self._resolved(told)
        lacking = [
            f"there is no header {name}"
            for name, header in told.get("headers", {}).items()
            if self._resolved(header).get("required") and name not in response.headers
        ]
        return [*lacking, *self._body((template, method, str(response.status_code), kind), told, response)]

    def _body(self, key: tuple[str, str, str, str], told: dict[str, Any], response: Any) -> Iterator[str]:
        kind, content = key[-1], told.get("content", {})
        if not content and not response.streaming and response.content:
            yield "there is a body"
        elif content and kind not in content:
            yield f"{kind} is not among {', '.join(content)}"
        elif content and not response.streaming and kind.endswith("json"):
            yield from self._wrong(key, content[kind]["schema"], response)

    def _wrong(self, key: tuple[str, str, str, str], schema: dict[str, Any], response: Any) -> Iterator[str]:
        validator = self._validators.get(key)
        if validator is None:
            whole = {**_closed(schema), "components": self._closed}
            validator = self._validators[key] = Draft202012Validator(whole, format_checker=FormatChecker())
        if (key, response.content) in self._right:
            return
        problems = [
            f"{error.json_path}: {error.message[:300]}"
            for error in validator.iter_errors(json.loads(response.content))
        ]
        if not problems and len(self._right) < MOST_KNOWN:
            self._right.add((key, response.content))
        yield from problems

    def _resolved(self, part: dict[str, Any]) -> dict[str, Any]:
        for step in part.get("$ref", "").split("/")[1:]:
            part = self._whole if step == "components" and "$ref" in part else part
            part = part[step]
        return part


def _closed(schema: Any) -> Any:
    """Return schemas of answers without keys that they do not name: else an answer might tell more than they say."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


@contextmanager
def held_against(document: Callable[[], Document]) -> Iterator[None]:
    """Have each answer of a test's client compared; the test fails where it differs."""

    def compare(answer: Any) -> Any:
        asked = answer.request
        method, path = (
            asked.get("REQUEST_METHOD") or asked.get("method"),
            asked.get("PATH_INFO") or asked["path"],
        )
        if path.startswith(API) and method in METHODS and answer.status_code != FAULT:
            wrong = document().problems(method, path, answer)
            if wrong:
                told = "; ".join(wrong)
                pytest.fail(f"{method} {path} answers otherwise than docs/openapi.yaml says: {told}")
        return answer

    plain, waited = Client.request, AsyncClient.request

    @functools.wraps(plain)
    def request(self: Client, **asked: Any) -> Any:
        return compare(plain(self, **asked))

    @functools.wraps(waited)
    async def arequest(self: AsyncClient, **asked: Any) -> Any:
        return compare(await waited(self, **asked))

    with mock.patch.object(Client, "request", request), mock.patch.object(AsyncClient, "request", arequest):
        yield
