"""Bodies of requests, read by serializers that tell what is wrong in the words of `chamber.invalid`."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework import exceptions, serializers

from chamber import invalid

WRONG_KIND: tuple[tuple[type[serializers.Field[Any, Any, Any, Any]], str], ...] = (
    (serializers.BooleanField, "bool_type"),
    (serializers.IntegerField, "int_type"),
    (serializers.FloatField, "float_type"),
    (serializers.CharField, "string_type"),
    (serializers.ListField, "list_type"),
    (serializers.DictField, "dict_type"),
    (serializers.JSONField, "json_type"),
)
"""The kind of `chamber.invalid` for a value that is of another type than its field."""
BOUNDS: Mapping[str, tuple[str, str]] = {
    "min_value": ("greater_than_equal", "ge"),
    "max_value": ("less_than_equal", "le"),
    "min_length": ("string_too_short", "min_length"),
    "max_length": ("string_too_long", "max_length"),
}
NO_CHARACTERS = frozenset({"null_characters_not_allowed", "surrogate_characters_not_allowed"})


class Body(serializers.Serializer[Any]):
    """A body, or a part of one. No sentence of the framework gets out: each has the value and what is allowed.

    A field of another kind says in its attribute `wrong` what it must be, as a pattern of `chamber.invalid`.
    """

    refuses_unknown: ClassVar[bool] = False
    """Whether a key that is none of the fields is an error."""

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """Return the validated values; a body that is null is told like any other that is no mapping."""
        if data is None and self.parent is None:
            return self.to_internal_value(data)
        return super().run_validation(data)

    def to_internal_value(self, data: Any) -> Any:
        """Return the validated values; raise the sentences by field, nested as the body is."""
        if not isinstance(data, Mapping):
            text = invalid.told("model_type", "The body", data)
            raise serializers.ValidationError({"non_field_errors": [text]})
        try:
            return super().to_internal_value(
                {name: _no_text(self.fields.get(name), value) for name, value in data.items()}
            )
        except serializers.ValidationError as error:
            found = error.detail if isinstance(error.detail, dict) else {"body": error.detail}
            raise serializers.ValidationError(
                {
                    name: _told(self.fields[name], name, data.get(name), detail)
                    if name in self.fields
                    else detail
                    for name, detail in found.items()
                }
            ) from error


def _no_text(field: Any, value: Any) -> Any:
    """Return a value so that a field for text refuses a number, which the framework would write as text."""
    if isinstance(field, serializers.CharField):
        return [value] if isinstance(value, int | float) else value
    if isinstance(field, serializers.ListField) and isinstance(value, list):
        return [_no_text(field.child, each) for each in value]
    if isinstance(field, serializers.DictField) and isinstance(value, Mapping):
        return {key: _no_text(field.child, each) for key, each in value.items()}
    return value


def _told(field: Any, name: str, given: Any, detail: Any) -> Any:
    """Return what a field found wrong with a value, in our words: a list of sentences, or those of its parts."""
    if isinstance(field, Body):
        return detail if isinstance(given, Mapping) else [invalid.told("model_type", name, given)]
    inner = getattr(field, "child", None)
    whole = isinstance(detail, dict) and "non_field_errors" in detail
    if inner is not None and isinstance(detail, dict) and not whole:
        if isinstance(given, Mapping):
            return {key: _told(inner, f"{name}.{key}", given.get(key), part) for key, part in detail.items()}
        return {
            key: _told(inner, f"{name}[{key}]", given[key], part)
            for key, part in detail.items()
            if isinstance(key, int)
        }
    if isinstance(field, serializers.ListSerializer):
        empty = f"{name} is {invalid.shown(given)}; it may not be empty."
        return [empty if isinstance(given, list) else invalid.told("list_type", name, given)]
    return [_sentence(field, name, given, error) for error in detail]


def _sentence(field: Any, name: str, given: Any, error: exceptions.ErrorDetail) -> str:
    code, shown = str(error.code), invalid.shown(given)
    if code == "required":
        return invalid.told("missing", name, given)
    if field.write_only and isinstance(field, serializers.JSONField):
        return f"{name} must be JSON, without NaN and infinite numbers."
    if field.write_only:
        # A password is shown to nobody, not even a wrong one.
        return f"{name} must be text of 1 to {field.max_length:,} characters, without a NUL."
    if code == "blank" or (code == "empty" and isinstance(given, list | Mapping)):
        return f"{name} is {shown}; it may not be empty."
    if code in NO_CHARACTERS:
        return f"{name} is {shown}; it may hold no NUL and no half of a surrogate pair."
    return _out_of_bounds(field, name, given, code) or _of_wrong_kind(field, name, given)


def _out_of_bounds(field: Any, name: str, given: Any, code: str) -> str:
    bound = getattr(field, code, None) if code in BOUNDS else None
    if bound is None:
        return ""
    kind, what = BOUNDS[code]
    if isinstance(field, serializers.ListField | serializers.DictField):
        kind = kind.removeprefix("string_")
    return invalid.told(kind, name, given, **{what: bound})


def _of_wrong_kind(field: Any, name: str, given: Any) -> str:
    if isinstance(field, serializers.ChoiceField):
        return invalid.not_among(name, given, field.choices)
    if pattern := getattr(field, "wrong", ""):
        return str(pattern).format(field=name, given=invalid.shown(given))
    kind = next((kind for of, kind in WRONG_KIND if isinstance(field, of)), "")
    return invalid.told(kind, name, given)


def by_place(errors: Any, place: str = "") -> dict[str, str]:
    """Return nested errors as one text for each place: `edits[0].shares[1].pool`."""
    if isinstance(errors, Mapping):
        parts = [by_place(value, _inner(place, key)) for key, value in errors.items()]
    elif isinstance(errors, list) and not all(isinstance(error, str) for error in errors):
        parts = [by_place(value, f"{place}[{index}]") for index, value in enumerate(errors) if value]
    elif errors:
        found = [str(error) for error in errors] if isinstance(errors, list) else [str(errors)]
        return {place: invalid.together(found)}
    else:
        return {}
    return {where: text for part in parts for where, text in part.items()}


def _inner(place: str, key: object) -> str:
    if key == "non_field_errors":
        return place
    if isinstance(key, int):
        return f"{place}[{key}]"
    return f"{place}.{key}" if place else str(key)
