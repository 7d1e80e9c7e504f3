"""Hostile values in every place of every address: the path, what it asks for, bodies, forms.

No answer is a fault, each refusal of the API is a sentence, and what could be taken for something else is taken by no
field but those that are named here. Messages of sockets: `test_socket_walk.py`; of agents:
`agentlink/tests/test_fuzz.py`.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.cookies import SimpleCookie
from itertools import chain
from typing import Any
from unittest import mock
from urllib.parse import quote

import pytest
import yaml
from django.core.cache import cache
from django.db import transaction
from django.http import QueryDict
from django.test import Client
from django.urls import resolve

from rig.answers import DOCUMENT, LOADER
from tests.role_world import BODIES, URLS, World
from tests.test_role_walk import walker
from tests.walker import Walker
from tests.ways_in import FULL, ROWS, STREAMS, Cell, Needs, Row, Way

__all__ = ["walker"]

PARTS = 4
MISLEADING = {
    "half a surrogate pair": "a\ud800b",
    "NUL": "a\x00b",
    "another writing direction": "nlp\u202eevil",
    "a character of no width": "nlp\u200b",
    "a letter that looks like another": "nl\u0440",
}
"""What could be taken for something else, or cannot be stored."""
LONG = {"more digits than Python reads": "9" * 4400}
IN_ADDRESSES = {
    **MISLEADING,
    **LONG,
    "more than a column holds": "9" * 30,
    "nothing but spaces": " \t ",
}
IN_JSON: dict[str, Any] = {
    **MISLEADING,
    **LONG,
    "true for a number": True,
    "an infinite number": 10**400,
    "null": None,
    "a deep list": [[[[[[[["x"]]]]]]]],
    "a mapping": {"a\x00": {"\ud800": "\ud800"}},
}
NO_JSON = {
    "more digits than Python reads": b'{"version": ' + b"9" * 4400 + b"}",
    "no number": b'{"version": NaN}',
    "no UTF-8": b'{"name": "\xed\xa0\x80"}',
    "too deep": b"[" * 100_000,
    "keys that nobody can read": b'{"a\\u0000": 1, "\\ud800": 2, "\\u202e": 3}',
    "another kind": b"true",
}

TAKEN = {
    # An address is what Kubernetes and the registry say that it is.
    "image",
    # A command is what the shell in the image says that it is.
    "command",
    # What is no name, and shown as it is.
    "description",
    # A secret is what it is, and never shown.
    "token",
    # As the provider says it, letter by letter.
    "group",
    # A box that is ticked, whatever it says.
    "required",
    "writable",
    # Which part of the page was open.
    "tab",
}
"""Fields that take text of any letters, though none of it can be stored where it is half a character or NUL."""
LOOKED_AT_NEVER = {
    # Told in the list that the page leads back to.
    ("POST", "workloads:bulk"),
    # The link is opened first, and nothing is read before.
    ("POST", "chamber:link"),
    # A password may be of any letters, and none is kept.
    ("POST", "account_password_strength"),
    # Neither says who has an account.
    ("POST", "account_reset_password"),
}
READ_SELDOM = {"priority", "code"}
"""Fields that are read only where another one says so."""
ALWAYS_SHOWN = {"scheduling:preview", *(name for name in URLS if name.startswith("scheduling:what-if"))}
"""Parts of pages that show what is wrong in the place of what they would show, and change nothing."""


def role_of(row: Row) -> str:
    """Return who gets furthest at an address."""
    if row.name == "account_login":
        return "anonymous"
    return next((role for role in (FULL, "owner", "mate") if row.statuses[role] < 400), FULL)


class Asking:
    """Asks, undoes what that changed, and keeps what was answered wrongly."""

    def __init__(self, walker: Walker) -> None:
        self.walker, self.client = walker, Client(raise_request_exception=False)
        self.wrong: dict[tuple[str, ...], str] = {}
        self.parameters: set[tuple[str, str]] = set()
        """The names of addresses with those of parameters that they were asked with."""

    def ask(self, row: Row, path: str, place: str, kind: str, **content: Any) -> bool:
        """Return whether it was taken."""
        cache.clear()
        part = {"X-Chamber-Fragment": "1"} if row.name == "teams:row" else {}
        who = self.walker.headers(Cell(role_of(row), Way.SESSION))
        self.client.cookies = SimpleCookie()
        with transaction.atomic():
            answer: Any = self.client.generic(
                row.method, path, headers={"If-Match": "*", **part, **who}, **content
            )
            transaction.set_rollback(True)
        text = "" if answer.streaming else answer.content.decode()
        if problem := told_badly(answer.status_code, answer.headers.get("Content-Type", ""), text):
            self.wrong[row.method, row.name, place, kind] = problem
        return bool(answer.status_code == row.statuses[role_of(row)] < 400)

    def ask_each_parameter(self, row: Row, address: str, known: set[str]) -> None:
        """Ask with each value in each parameter: those that are known, and all that an answer was seen to look for."""
        asked: set[str] = set()
        with looked_for() as names:
            self.ask(row, address, "", "nothing")
            while left := sorted((names | known) - asked):
                for name in left:
                    for kind, text in IN_ADDRESSES.items():
                        self.ask(row, f"{address}?{name}={encoded(text)}", f"?{name}", kind)
                asked |= set(left)
        self.parameters |= {(row.name, name) for name in asked}


def told_badly(status: int, kind: str, text: str) -> str:
    """Return what is wrong with an answer; "" where it is a lawful one, or a refusal in a sentence."""
    if status >= 500:
        return f"{status}: {text[:300]}"
    if "json" in kind and status >= 400:
        body = json.loads(text)
        sentences = [body["detail"], *body.get("errors", {}).values()] if isinstance(body, dict) else [""]
        if not all(isinstance(each, str) and each.endswith((".", "?")) for each in sentences):
            return f"{status}: {text[:300]}"
        if any(len(each) > 2000 for each in sentences):
            return f"{status}: a sentence of {max(map(len, sentences))} characters"
    return ""


def encoded(text: str) -> str:
    """Return a text as an address or a form has it, also where it is none that UTF-8 knows."""
    return quote(str(text).encode("utf-8", "surrogatepass"), safe="")


def paths(row: Row, world: World) -> Iterator[tuple[str, str, str]]:
    """Yield the addresses of a row with something else in one of its places, with place and kind."""
    address = world.address(row.name)
    for key, value in resolve(address).kwargs.items():
        for kind, text in IN_ADDRESSES.items():
            there = re.compile(f"/{re.escape(quote(str(value)))}(?=/|$|-)")
            yield there.sub(f"/{encoded(text)}", address, count=1), f"path: {key}", kind


def operation(row: Row, document: Any) -> Any:
    """Return what the API's document says of an address and its method; nothing of what is no part of it."""
    template = "/api/v1/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(URLS[row.name].pattern))
    return document["paths"].get(template, {}).get(row.method.lower(), {})


def optional(row: Row, document: Any, body: dict[str, Any]) -> set[str]:
    """Return the fields that an address of the API takes besides those that the walk sends."""
    content = operation(row, document).get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
    return set(document["components"]["schemas"].get(schema, {}).get("properties", {})) - set(body)


def documented(row: Row, document: Any) -> set[str]:
    """Return the parameters that an address of the API takes, by its document."""
    told = operation(row, document).get("parameters", ()) if row.is_api else ()
    return {each["name"] for each in told if each.get("in") == "query"}


@contextmanager
def looked_for() -> Iterator[set[str]]:
    """Give the names of parameters that requests inside the block look for in what they are asked."""
    names: set[str] = set()

    def noting(plain: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: QueryDict, key: Any, *others: Any, **options: Any) -> Any:
            names.add(str(key))
            return plain(self, key, *others, **options)

        return noted

    with ExitStack() as stack:
        for method in ("__getitem__", "__contains__", "get", "getlist"):
            stack.enter_context(mock.patch.object(QueryDict, method, noting(getattr(QueryDict, method))))
        yield names


def bodies(given: Any, values: dict[str, Any], place: str = "") -> Iterator[tuple[Any, str, str]]:
    """Yield a body with each value in each of its places, with the name of the innermost key and the kind."""
    for kind, value in values.items():
        yield copy.deepcopy(value), place, kind
    for key, inner in (
        given.items() if isinstance(given, dict) else enumerate(given) if isinstance(given, list) else ()
    ):
        for other, name, kind in bodies(inner, values, str(key) if isinstance(given, dict) else place):
            whole = copy.copy(given)
            whole[key] = other
            yield whole, name, kind


@pytest.fixture(scope="module")
def document() -> Any:
    """What the API says of itself."""
    return yaml.load(DOCUMENT.read_text(), Loader=LOADER)  # noqa: S506 - it is a safe one


def asked(part: int) -> Iterator[Row]:
    """Yield the rows of a part that have anything to say; streams are asked in tests of their own."""
    for row in list(ROWS.values())[part::PARTS]:
        if row.needs is not Needs.AGENT and row.name not in STREAMS:
            yield row


@pytest.mark.django_db
@pytest.mark.sqlite_only  # twice would tell little more, and takes a minute
@pytest.mark.parametrize("part", range(PARTS))
def test_hostile_values_are_refused_in_a_sentence_wherever_they_stand(
    walker: Walker, document: Any, part: int
) -> None:
    asking, taken = Asking(walker), set()
    for row in asked(part):
        address, body = walker.world.address(row.name), BODIES.get(row.name, {})
        for path, place, kind in paths(row, walker.world):
            asking.ask(row, path, place, kind)
        if row.method == "GET":
            asking.ask_each_parameter(row, address, documented(row, document))
        else:
            for content, place, kind in contents(row, body, optional(row, document, body)):
                was_taken = asking.ask(row, address, place, kind, **content)
                # Of what takes no body none is read.
                if was_taken and kind in MISLEADING and place and row.method != "DELETE":
                    taken.add((row.method, row.name, place))
    assert [f"{' '.join(place)}: {problem}" for place, problem in asking.wrong.items()] == []
    assert [
        (method, name, place)
        for method, name, place in sorted(taken)
        if place not in TAKEN | READ_SELDOM
        and (method, name) not in LOOKED_AT_NEVER
        and name not in ALWAYS_SHOWN
    ] == []


def contents(row: Row, body: dict[str, Any], others: set[str]) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield what is sent to an address: its body with something else in each place, also in that of each field which
    it may have and has not, with place and kind.
    """
    if row.is_api or row.name == "api-login":
        filled = (
            ({**body, name: other}, name, kind) for name in sorted(others) for kind, other in IN_JSON.items()
        )
        for other, place, kind in chain(bodies(body, IN_JSON), filled):
            yield {"data": json.dumps(other), "content_type": "application/json"}, place, kind
        for kind, data in NO_JSON.items():
            yield {"data": data, "content_type": "application/json"}, "body", kind
        return
    for name in body:
        for kind, text in {**MISLEADING, **LONG}.items():
            form = "&".join(f"{key}={encoded(each)}" for key, each in {**body, name: text}.items())
            yield {"data": form, "content_type": "application/x-www-form-urlencoded"}, name, kind


def test_fields_that_may_be_left_out_are_filled_too(document: Any) -> None:
    filled = {
        (method, name): optional(row, document, BODIES.get(name, {}))
        for (method, name), row in ROWS.items()
        if row.is_api and method != "GET"
    }
    assert {"email", "name", "mail"} <= filled["POST", "api-people"]
    assert {"preview"} <= filled["POST", "api-people-csv"]
    assert len([names for names in filled.values() if names]) > 15


@pytest.mark.django_db
def test_each_parameter_that_an_answer_looks_for_is_asked_with(walker: Walker, document: Any) -> None:
    asking = Asking(walker)
    for name in ("workloads:list", "api-schema"):
        asking.ask_each_parameter(ROWS["GET", name], walker.world.address(name), set())
    assert {("workloads:list", "status"), ("workloads:list", "owner"), ("api-schema", "format")} <= (
        asking.parameters
    )
