"""Every kind of pydantic's errors that a model of ours can give has a sentence of ours."""

import string
from collections.abc import Iterator
from typing import Annotated, Any, get_args

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core.core_schema import ErrorType

from agentlink.agent.backends.jobs import Job
from agentlink.protocol import NodeReport, logs, wire
from chamber import invalid
from teams.models import PoolPolicy, TeamRules
from workloads.requests import SubmissionRequest
from workloads.requests import sentences as told_of_a_submission

MODELS: list[TypeAdapter[Any]] = [
    *(TypeAdapter(model) for model in (SubmissionRequest, PoolPolicy, TeamRules, Job, list[NodeReport])),
    *(wire._AGENT, wire._SERVER, logs._AGENT, logs._SERVER),
]

OF_A_KIND = {
    "any": (),
    "bool": ("bool_type", "bool_parsing"),
    "datetime": (
        *("datetime_type", "datetime_parsing", "datetime_object_invalid", "datetime_from_date_parsing"),
        "timezone_aware",
    ),
    "default": (),
    "definition-ref": (),
    "definitions": (),
    "dict": ("dict_type",),
    "enum": ("enum",),
    "float": ("float_type", "float_parsing", "finite_number"),
    "function-after": ("value_error",),
    "function-before": ("value_error",),
    "function-plain": ("value_error",),
    "function-wrap": ("value_error",),
    "int": ("int_type", "int_parsing", "int_parsing_size", "int_from_float"),
    "list": ("list_type",),
    "literal": ("literal_error",),
    "model": ("model_type", "model_attributes_type"),
    "model-field": ("missing",),
    "model-fields": ("extra_forbidden",),
    "none": ("none_required",),
    "nullable": (),
    "str": ("string_type", "string_unicode"),
    "tagged-union": ("union_tag_invalid", "union_tag_not_found"),
    "tuple": ("tuple_type",),
    "union": (),
    "uuid": ("uuid_type", "uuid_parsing", "uuid_version"),
}
"""What each kind of schema may raise; one that is not here fails the test until it is."""
OF_A_BOUND = {
    "ge": "greater_than_equal",
    "gt": "greater_than",
    "le": "less_than_equal",
    "lt": "less_than",
    "pattern": "string_pattern_mismatch",
}
OF_A_LENGTH = {
    ("str", "min_length"): "string_too_short",
    ("str", "max_length"): "string_too_long",
    ("other", "min_length"): "too_short",
    ("other", "max_length"): "too_long",
}


def errors_of(schema: Any) -> Iterator[str]:
    """Yield each kind of error that data may have by a core schema."""
    if isinstance(schema, list | tuple):
        for part in schema:
            yield from errors_of(part)
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if isinstance(kind, str):
        yield from OF_A_KIND[kind]
        for key, error in OF_A_BOUND.items():
            if schema.get(key) is not None:
                yield error
        for (of, key), error in OF_A_LENGTH.items():
            if schema.get(key) is not None and (of == "str") == (kind == "str"):
                yield error
    for key, part in schema.items():
        if key not in {
            "metadata",
            "serialization",
            "ref",
            "expected",
            "members",
            "default",
            "type",
            "function",
        }:
            yield from errors_of(part)


FREE = {"value_error", "assertion_error"}
"""What our own validators say is a sentence already."""


@pytest.mark.parametrize("adapter", MODELS, ids=lambda adapter: str(adapter._type)[:60])
def test_each_error_that_a_model_can_give_has_a_sentence(adapter: TypeAdapter[Any]) -> None:
    found = set(errors_of(adapter.core_schema)) | {"json_invalid"}
    assert len(found) > 5, "the walk has seen nothing of the model"
    assert found - FREE - invalid.SENTENCES.keys() == set()


def test_the_table_names_errors_that_there_are_and_only_what_they_tell() -> None:
    assert invalid.SENTENCES.keys() <= set(get_args(ErrorType))
    general = {"field", "given", "name"}
    told = {
        *("expected", "tag", "expected_tags", "gt", "ge", "lt", "le"),
        *("min_length", "max_length", "pattern", "error"),
    }
    for pattern in invalid.SENTENCES.values():
        used = {name for _, name, _, _ in string.Formatter().parse(pattern) if name}
        assert used <= general | told


BAD: list[Any] = [
    *(None, True, -1, 1.5, 10**12, float("nan"), float("inf"), "", "x", "1.5", "9" * 30),
    *([], [None], [1], [""], {}, {"a": None}, {"a": 1}, {"": ""}, {1: 2}),
]


def wrong_by(model: type[BaseModel]) -> Iterator[ValidationError]:
    for field in model.model_fields:
        for value in BAD:
            try:
                model.model_validate({field: value})
            except ValidationError as error:
                yield error


@pytest.mark.parametrize("model", [SubmissionRequest, PoolPolicy, TeamRules, NodeReport])
def test_no_sentence_is_pydantic_s_and_each_names_the_value_and_the_place(model: type[BaseModel]) -> None:
    seen = 0
    for error in wrong_by(model):
        for detail in error.errors():
            seen += 1
            text = invalid.sentence(detail)
            assert text.endswith(".")
            assert "Input should" not in text
            if detail["type"] in FREE:
                continue
            assert invalid.place(detail) in text or repr(detail["loc"][-1]) in text
            assert detail["msg"] not in text
    assert seen > 20


@pytest.mark.parametrize(
    ("given", "field", "text"),
    [
        ({"pods": "many"}, "pods", "pods is 'many'; it must be a whole number."),
        ({"cpu": "lots"}, "cpu", "cpu is 'lots'; it must be a number."),
        ({"cpu": -1}, "cpu", "cpu is -1; at least 0 is allowed."),
        ({"hold": "maybe"}, "hold", "hold is 'maybe'; it must be true or false."),
        ({"pools": "main"}, "pools", "pools is 'main'; it must be a list."),
        ({"environment": {"A": None}}, "environment", "environment.A is null; it must be text."),
        ({"labels": "x"}, "labels", "labels is 'x'; it must be a mapping of names to values."),
        ({"team": 7}, "team", "team is 7; it must be text."),
        (
            {"tolerations": [1, 2]},
            "tolerations",
            "tolerations[0] is 1; it must be text, such as key or key=value. tolerations[1]",
        ),
        ({"tolerations": [*range(9)]}, "tolerations", "And 4 more like it."),
    ],
)
def test_what_a_submission_says_wrong_is_told_with_value_place_and_what_is_allowed(
    given: dict[str, Any], field: str, text: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        SubmissionRequest.model_validate({"name": "a", "team": "b", "image": "c", **given})
    assert text in told_of_a_submission(refused.value)[field]


def test_two_mistakes_at_one_place_are_both_told_and_a_key_has_its_place() -> None:
    class Given(BaseModel):
        labels: dict[Annotated[str, Field(max_length=3)], int]

    with pytest.raises(ValidationError) as refused:
        Given.model_validate({"labels": {"longer": "x"}})
    assert invalid.sentences(refused.value) == {
        "labels.longer": "the name labels.longer is 'longer'; at most 3 characters are allowed. "
        "labels.longer is 'x'; it must be a whole number."
    }


def test_rules_and_policies_are_told_in_the_same_words() -> None:
    with pytest.raises(ValidationError) as refused:
        PoolPolicy.model_validate({"max_preemptions": "few", "queueing": "slow", "sharing": None})
    assert list(invalid.sentences(refused.value).values()) == [
        "'slow' is not allowed for queueing; allowed are 'strict-fifo', 'best-effort-fifo' or 'backfill'.",
        "max_preemptions is 'few'; it must be a whole number.",
        "null is not allowed for sharing; allowed are 'fractions' or 'none'.",
    ]
