"""Every field of every form and of every body of the API, given what it cannot be, answers in the project's words."""

import json
import re
from collections.abc import Iterator
from html import unescape
from importlib import import_module
from typing import Any

import click
import pytest
from click.testing import CliRunner
from django import forms
from django.http import QueryDict
from django.urls import get_resolver
from drf_spectacular.generators import SchemaGenerator
from rest_framework import serializers
from rest_framework.test import APIClient

from agentlink.tests.factories import make_cluster
from chamber.bodies import Body, by_place
from chamber.cli import main as cli
from chamber.forms import Form, Sentences
from chamber.invalid import shown
from teams.models import Role
from teams.tests.factories import make_org, make_pool, make_team, member

APPS = ("chamber", "teams", "workloads", "scheduling", "agentlink")

FRAMEWORKS = re.compile(
    r"This field|valid (integer|number|string|choice|boolean|value|list|dictionary)|Ensure |Expected a |"
    r"Input should|Select a |Enter a |is not one of the available|Not a valid|A valid|Must be a|"
    r"characters are not allowed\.$|credentials were|Method \"|Unsupported media|satisfy the request|Invalid cursor"
)
"""How sentences of DRF, Django and pydantic read."""

BAD_JSON: list[Any] = [
    *(None, True, -1, 1.5, 1e30, 10**30, float("inf"), float("-inf")),
    *("", " ", "x", "nan", "1e30", "x" * 5000, "a\x00b"),
    *([], [None], [[]], ["x" * 5000], {}, {"": None}, {"a": "x" * 5000}, {"a": []}),
]
BAD_TEXT = ["", "-1", "1.5", "x", "nan", "1e30", "9" * 40, "inf", "x" * 5000, "a\x00b", "0.0001", "1" * 400]


def below(base: type[Any]) -> Iterator[type[Any]]:
    for each in base.__subclasses__():
        yield each
        yield from below(each)


def of_the_project(base: type[Any]) -> list[type[Any]]:
    """Return the classes below `base` that the project's own modules define, tests aside."""
    _ = get_resolver().url_patterns
    for name in (
        "chamber.views_settings",
        "chamber.views_sign_in",
        "chamber.views_tokens",
        "chamber.people.forms",
    ):
        import_module(name)
    found = {each for each in below(base) if each.__module__.partition(".")[0] in APPS}
    return sorted(
        (each for each in found if ".tests." not in each.__module__ and each not in {Form, Body}),
        key=lambda each: f"{each.__module__}.{each.__qualname__}",
    )


FORMS = of_the_project(forms.BaseForm)
BODIES = [each for each in of_the_project(Body) if each().fields]


def test_every_form_and_every_body_of_a_request_tells_in_the_project_s_words() -> None:
    assert len(FORMS) > 10
    assert [each for each in FORMS if not issubclass(each, Sentences)] == []
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    asked = set()
    for path in schema["paths"].values():
        for operation in path.values():
            if "requestBody" in operation:
                given = json.dumps(operation["requestBody"]["content"]["application/json"]["schema"])
                asked |= set(re.findall(r"#/components/schemas/(\w+)", given))
    told = {each.__name__.removesuffix("Serializer") for each in BODIES}
    assert len(asked) > 10
    assert {name for name in asked if name.removeprefix("Patched") not in told} <= {"SubmissionBody"}


def leaves(field: Any, value: Any) -> tuple[str, ...]:
    """Return what a sentence may show of a value: itself, or any of its parts."""
    parts: list[Any] = [value]
    if isinstance(value, list):
        parts += value
    if isinstance(value, dict):
        parts += value.values()
        parts += [str(key) for key in value]
    return tuple(shown(part) for part in parts)


@pytest.mark.parametrize("body", BODIES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("given", BAD_JSON, ids=lambda each: repr(each)[:20])
def test_a_field_of_a_body_tells_the_value_and_its_place(body: type[Body], given: Any) -> None:
    fields = body().fields
    for name, field in fields.items():
        read = body(data={name: given})
        if read.is_valid():
            continue
        for place, text in by_place(read.errors).items():
            assert FRAMEWORKS.search(text) is None, (place, text)
            assert text.endswith("."), (place, text)
            if not place.startswith(name) or text.endswith("is missing.") or field.write_only:
                continue
            assert any(value in text for value in leaves(field, given)), (place, text)


@pytest.mark.parametrize("body", BODIES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("given", [-16970, 1.5, True])
def test_a_number_is_no_text(body: type[Body], given: Any) -> None:
    for name, field in body().fields.items():
        if type(field) is serializers.CharField and not field.read_only:
            read = body(data={name: given})
            assert not read.is_valid(), f"{name} takes {given}"
            assert name in by_place(read.errors), f"{name} takes {given}"


@pytest.mark.parametrize("body", BODIES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("given", ["x", None, [1], 7])
def test_a_body_that_is_no_object_is_told_with_what_it_is(body: type[Body], given: Any) -> None:
    read = body(data=given)
    if given is None and not body.__name__:
        return
    assert not read.is_valid()
    [text] = by_place(read.errors).values()
    assert FRAMEWORKS.search(text) is None, text


def test_a_wrong_password_is_not_shown() -> None:
    from chamber.api_accounts import LoginSerializer

    for given in ("y" * 1001, ["secret-word"], "a\x00secret-word"):
        read = LoginSerializer(data={"username": "ada", "password": given})
        assert not read.is_valid()
        [text] = by_place(read.errors).values()
        assert "secret" not in text
        assert "yyy" not in text


def fields_of(form: type[forms.Form]) -> list[Any]:
    return [(form, name) for name in form.base_fields]


@pytest.mark.django_db  # of new passwords also the names of the organisation are read
@pytest.mark.parametrize(
    ("form", "name"),
    [pair for each in FORMS for pair in fields_of(each)],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_field_of_a_form_tells_the_value_and_its_label(form: type[forms.Form], name: str) -> None:
    """The field alone in a form: those that know teams and pools are made by their views."""
    field = form.base_fields[name]
    alone: Any = type("Alone", (Form,), {name: field})
    label = str(alone()[name].label)
    for given in BAD_TEXT:
        data = QueryDict(mutable=True)
        data[name] = given
        bound = alone(data)
        for text in bound.errors.get(name, []):
            assert FRAMEWORKS.search(text) is None, text
            assert text.endswith("."), text
            if text == f"{label} is missing." or isinstance(field.widget, forms.PasswordInput):
                continue
            assert shown(given) in text or given in text or given[:40] in text, text


WRONG_DOORS = [
    ("get", "/api/v1/me/", {"Authorization": ""}, 401, "Nobody is signed in; send `Authorization: Bearer`"),
    (
        "get",
        "/api/v1/me/",
        {"Authorization": "Basic b2xnYTp4"},
        401,
        "Authorization is of the kind 'Basic'; send",
    ),
    (
        "put",
        "/api/v1/me/",
        {},
        405,
        "'PUT' is not allowed for this address; allowed are 'GET', 'HEAD' or 'OPTIONS'.",
    ),
    (
        "get",
        "/api/v1/me/",
        {"Accept": "text/xml"},
        406,
        "'text/xml' is not allowed for Accept; allowed are 'applic",
    ),
    (
        "get",
        "/api/v1/me/?format=xml",
        {},
        422,
        "'xml' is not allowed for format; allowed are 'json' or 'api'.",
    ),
    ("get", "/api/v1/me/?format=", {}, 422, "'' is not allowed for format; allowed are 'json' or 'api'."),
    (
        "post",
        "/api/v1/tokens/",
        {"Content-Type": "text/plain"},
        415,
        "'text/plain' is not allowed for Content-Type; allowed are 'application/json'.",
    ),
    ("post", "/api/v1/tokens/", {"Content-Type": "application/json"}, 400, "The body is not JSON: "),
    ("get", "/api/v1/audit/?cursor=x", {}, 404, "cursor is none of this list and order: begin without one."),
]


@pytest.mark.parametrize("door", WRONG_DOORS, ids=lambda door: f"{door[3]} {door[1]}")
def test_a_request_that_no_view_takes_is_told_in_the_project_s_words(
    db: None, door: tuple[str, str, dict[str, str], int, str]
) -> None:
    method, path, headers, status, told = door
    client = APIClient()
    user = member(make_org("Acme"), Role.ORG_ADMIN, "olga")
    if "Authorization" not in headers:
        client.force_authenticate(user)
    kind = headers.get("Content-Type", "application/json")
    given = {} if method == "get" else {"data": "{x", "content_type": kind}
    answer = getattr(client, method)(path, headers=headers, **given)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert answer.json()["detail"].startswith(told), answer.json()
    assert FRAMEWORKS.search(answer.json()["detail"]) is None


def test_the_errors_of_a_problem_are_one_sentence_a_place_at_every_door(db: None) -> None:
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(member(make_org("Acme"), Role.ORG_ADMIN, "olga"))
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    asked = [
        (method, path)
        for path, operations in schema["paths"].items()
        for method in operations
        if method in {"post", "patch", "put"} and "{" not in path
    ]
    assert len(asked) > 8
    for method, path in asked:
        for body in ({"no-such": 1}, [1], {"edits": [{"shares": [{"reservation": "x"}]}], "name": []}):
            answer = getattr(client, method)(path, body, format="json")
            assert 400 <= answer.status_code < 500, (path, body)
            errors = answer.json().get("errors", {})
            assert all(isinstance(text, str) and text.endswith((".", "?")) for text in errors.values()), (
                errors
            )


NEAR = {
    "/api/v1/teams/nlpp/": "nlp",
    "/api/v1/pools/mian/": "main",
    "/api/v1/clusters/eastt/": "east",
    "/api/v1/clusters/eastt/namespaces/": "east",
    "/api/v1/queue/?pool=mian": "main",
    "/api/v1/nodes/?cluster=eastt": "east",
    "/api/v1/audit/?team=nlpp": "nlp",
    "/teams/nlpp/": "nlp",
    "/pools/mian/": "main",
    "/clusters/eastt/": "east",
    "/queue/mian/": "main",
}


def test_a_wrong_name_is_told_with_the_nearest_of_those_that_one_may_see(db: None) -> None:
    org, _, _ = make_org("Acme"), make_pool("Main"), make_cluster("east")
    nlp = make_team(org, "NLP")
    make_team(org, "Vision")
    client = APIClient()
    client.force_login(member(org, Role.ORG_ADMIN, "olga"))
    for path, near in NEAR.items():
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert f"Did you mean '{near}'?" in unescape(answer.content.decode()), path
    client.force_login(member(nlp, Role.RESEARCHER, "ada"))
    for path in (
        "/api/v1/teams/visionn/",
        "/teams/visionn/",
        "/api/v1/workloads/?team=visionn",
        "/workloads/?team=visionn",
    ):
        text = unescape(client.get(path).content.decode())
        assert "There is no team 'visionn' that you may see." in text, path
        assert "Did you mean" not in text, path


FREE_TEXT = {"search", "target_id"}


def questions() -> Iterator[tuple[str, str]]:
    """Yield the lists of the API, and each parameter that narrows one down."""
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    for path, operations in schema["paths"].items():
        for given in operations.get("get", {}).get("parameters", []) if "{" not in path else ():
            if given["in"] == "query" and given["name"] not in FREE_TEXT:
                yield path, given["name"]


def test_a_filter_of_the_api_tells_what_it_cannot_be_and_is_never_left_out(db: None) -> None:
    client = APIClient()
    client.force_authenticate(member(make_org("Acme"), Role.ORG_ADMIN, "olga"))
    make_pool("Main")
    asked = list(questions())
    assert len(asked) > 20
    for path, name in asked:
        known = {} if name == "gpus" or "next" not in path else {"gpus": "1"}
        answer = client.get(path, {**known, name: "\u00bd"}, headers={"Accept": "application/json"})
        assert answer.status_code in {404, 422}, (path, name)
        told = answer.json()
        assert list(told.get("errors", ())) == [name], (path, name, told)
        assert name == "cursor" or "'\u00bd'" in told["errors"][name], told
        assert FRAMEWORKS.search(told["detail"]) is None, told
    # More digits than Python makes a number of.
    assert client.get("/api/v1/queue/", {"cursor": "9" * 5000}).status_code == 422


CLICKS = re.compile(
    r"Invalid value|Missing |No such |Got unexpected|not a valid|not in the range|requires an|\bOption '"
)
"""How sentences of click read."""


def commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from commands(below, *path, name)


COMMANDS = dict(commands(cli))


def wrong_lines(command: click.Command) -> Iterator[tuple[list[str], str]]:
    """Yield what of a command line is wrong, and what must be said of it."""
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    yield ["--no-such-option"], "There is no option '--no-such-option'."
    if any(each.required for each in arguments):
        yield [], " is missing"
    if not arguments and not any(each.required or getattr(each, "prompt", None) for each in command.params):
        yield ["x"] * (len(arguments) + 1), "'x' is too much: "
    for option in command.params:
        if not isinstance(option, click.Option) or option.name == "help":
            continue
        name = max(option.opts, key=len)
        if option.is_flag:
            yield [f"{name}=x"], f"{name} takes no value."
            continue
        yield [name], f"{name} needs a value."
        if isinstance(option.type, click.Choice):
            yield [name, "\u00bd"], f"'\u00bd' is not allowed for {name}; allowed are "
        elif option.type.name in {"integer", "integer range", "float"}:
            yield [name, "\u00bd"], f"{name} is '\u00bd'; it must be "
        elif option.type.name == "duration":
            yield [name, "\u00bd"], f"{name}: '\u00bd' is no duration"
        else:
            assert option.type.name in {"text", "file", "directory"}, option.type.name


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_tells_what_is_wrong_with_its_line_in_the_project_s_words(path: tuple[str, ...]) -> None:
    for line, told in wrong_lines(COMMANDS[path]):
        result = CliRunner().invoke(cli, [*path, *line])
        [*_, error] = result.stderr.splitlines()
        assert result.exit_code == 2, (line, result.output)
        assert CLICKS.search(error) is None, error
        assert told in error, (line, error)
        assert error.endswith((".", "?")), error


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["token", "creat"], "There is no command 'creat'. Did you mean 'create'?"),
        (["token", "x"], "There is no command 'x'. There are create, list, revoke."),
        (["--versoin"], "There is no option '--versoin'. Did you mean '--version'?"),
        (["list", "--tema", "nlp"], "There is no option '--tema'. Did you mean '--team'?"),
        (["logs", "w", "--tail", "-1"], "--tail is '-1'; it must be a whole number of at least 0."),
        (["delete", "node", "x"], "'node' is not allowed for KIND; allowed are 'cluster', 'pool' or 'team'."),
        (["submit", "--env", "A"], "--env is 'A'; it must be NAME=VALUE."),
        (["login", "--days", "900"], "--days is '900'; it must be a whole number from 1 to 365."),
    ],
)
def test_a_command_line_that_cannot_be(line: list[str], told: str) -> None:
    assert f"Error: {told}" in CliRunner().invoke(cli, line).stderr


def test_the_walk_would_see_a_sentence_of_the_framework() -> None:
    options = [click.Option(["--pods"], type=int), click.Option(["--hold"], is_flag=True)]
    for words in (["--pods", "two"], ["--no-such"], ["--pods"], ["--hold=x"], ["x"]):
        error = CliRunner().invoke(click.Command("plain", params=[*options]), words).stderr
        assert CLICKS.search(error), error

    class Plain(serializers.Serializer[Any]):
        order = serializers.IntegerField(max_value=3)
        kind = serializers.ChoiceField(choices=["a"])

    class Page(forms.Form):
        order = forms.IntegerField(max_value=3)
        kind = forms.ChoiceField(choices=[("a", "A")])

    for given in ("x", "7", ""):
        read, page = Plain(data={"order": given, "kind": given}), Page({"order": given, "kind": given})
        assert not read.is_valid()
        assert not page.is_valid()
        told = [
            *by_place(read.errors).values(),
            *(str(text) for each in page.errors.values() for text in each),
        ]
        assert len(told) == 4
        assert all(FRAMEWORKS.search(text) for text in told), told
