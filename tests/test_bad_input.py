"""Every field of every form and of every body of the API, given what it cannot be, answers in the project's words."""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from django import forms
from django.http import QueryDict
from django.urls import get_resolver
from drf_spectacular.generators import SchemaGenerator
from rest_framework import serializers

from chamber.bodies import Body, by_place
from chamber.forms import Form, Sentences
from chamber.invalid import shown

APPS = ("chamber", "teams", "workloads", "scheduling", "agentlink")

FRAMEWORKS = re.compile(
    r"This field|valid (integer|number|string|choice|boolean|value|list|dictionary)|Ensure |Expected a |"
    r"Input should|Select a |Enter a |is not one of the available|Not a valid|A valid|Must be a|"
    r"characters are not allowed\.$"
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
    assert {name for name in asked if name.removeprefix("Patched") not in told} <= {"SubmissionRequest"}


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


def test_the_walk_would_see_a_sentence_of_the_framework() -> None:
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
