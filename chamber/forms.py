"""Forms of pages that tell what is wrong in the words of `chamber.invalid`."""

from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.core.exceptions import ValidationError

from chamber import invalid

WRONG_KIND: tuple[tuple[type[forms.Field], str], ...] = (
    # A FloatField is an IntegerField by Django's classes.
    (forms.FloatField, "float_type"),
    (forms.DecimalField, "float_type"),
    (forms.IntegerField, "int_type"),
    (forms.CharField, "string_type"),
)
"""The kind of `chamber.invalid` for a text that cannot be read as its field's type."""
BOUNDS = {
    "min_value": ("greater_than_equal", "ge"),
    "max_value": ("less_than_equal", "le"),
    "min_length": ("string_too_short", "min_length"),
    "max_length": ("string_too_long", "max_length"),
}

OF_VALIDATORS = frozenset(
    {
        "invalid",
        "null_characters_not_allowed",
        "surrogate_characters_not_allowed",
        "max_digits",
        "max_decimal_places",
    }
)
"""Codes that a field's validators have besides bounds."""

if TYPE_CHECKING:
    _Base = forms.Form
else:
    _Base = object


class Sentences(_Base):
    """For forms: puts sentences with the field, the value and what is allowed in place of the framework's.

    Those are known by their codes; what the project says itself has none.
    """

    def add_error(self, field: str | None, error: Any) -> None:
        """Add an error, worded anew where it is the framework's."""
        if (
            field is not None
            and field in self.fields
            and isinstance(error, ValidationError)
            and hasattr(error, "error_list")
        ):
            error = ValidationError([self._told(field, each) for each in error.error_list])
        super().add_error(field, error)

    def _told(self, name: str, error: ValidationError) -> ValidationError:
        field = self.fields[name]
        if error.code not in {*field.error_messages, *BOUNDS, *OF_VALIDATORS}:
            return error  # of the project, or of a rule for passwords
        label = str(self[name].label)
        return ValidationError(_sentence(field, label, self[name].data, error))


class Form(Sentences, forms.Form):
    """The base of all forms of pages."""


def _sentence(field: forms.Field, label: str, given: Any, error: ValidationError) -> str:
    code, shown = str(error.code), invalid.shown(given)
    if code == "required":
        return invalid.told("missing", label, given)
    if isinstance(field.widget, forms.PasswordInput):
        too_long = (
            f"{label} is too long: at most {(error.params or {}).get('limit_value')} characters are allowed."
        )
        other = f"{label} cannot be that; it holds a character that no password has."
        return too_long if code == "max_length" else other
    if code == "null_characters_not_allowed":
        return f"{label} is {shown}; it may hold no NUL."
    if code in BOUNDS:
        kind, what = BOUNDS[code]
        return invalid.told(kind, label, given, **{what: (error.params or {})["limit_value"]})
    if code == "max_decimal_places" and isinstance(field, forms.DecimalField):
        return f"{label} is {shown}; at most {field.decimal_places} digits are allowed after the point."
    return _of_wrong_kind(field, label, given)


def _of_wrong_kind(field: forms.Field, label: str, given: Any) -> str:
    if isinstance(field, forms.ChoiceField):
        return invalid.not_among(label, given, [key for key, _ in cast("Any", field.choices) if key != ""])
    if isinstance(field, forms.EmailField):
        return f"{label} is {invalid.shown(given)}; it must be an e-mail address, such as ada@example.org."
    kind = next((kind for of, kind in WRONG_KIND if isinstance(field, of)), "")
    return invalid.told(kind, label, given)
