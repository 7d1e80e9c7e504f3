"""Fields of forms between what people type and what is stored: GPUs, durations, lists, labels."""

from decimal import Decimal
from typing import Any

from django import forms
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from teams import durations
from teams.values import MAX_MILLI


class GpusFormField(forms.DecimalField):
    """GPUs on the page (1.5), milli-GPUs in the program (1500)."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("max_value", MAX_MILLI // 1000)
        super().__init__(min_value=0, decimal_places=3, step_size=None, **options)
        self.widget.attrs |= {"step": "any", "inputmode": "decimal"}

    def clean(self, value: Any) -> Any:
        """Return milli-GPUs, None where nothing was entered."""
        found = super().clean(value)
        return None if found is None else int(found * 1000)

    def prepare_value(self, value: Any) -> Any:
        """Return stored milli-GPUs as GPUs; what was typed stays as it was typed."""
        if isinstance(value, int):
            whole = Decimal(value) / 1000
            return f"{whole:f}".rstrip("0").rstrip(".") if "." in f"{whole:f}" else f"{whole:f}"
        return value


class DurationField(forms.CharField):
    """A length of time on the page (7d, 30m, 1h 30m), seconds in the program."""

    LONGEST = 3650 * durations.UNITS["d"]

    def __init__(self, *, low: int, **options: Any) -> None:
        super().__init__(**options)
        self.low = low
        self.widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}

    def clean(self, value: Any) -> Any:
        """Return whole seconds, None where nothing was entered."""
        text = super().clean(value)
        if not text:
            return None
        try:
            length = durations.seconds(text)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
        if not self.low <= length <= self.LONGEST:
            low, high = durations.duration_text(self.low), durations.duration_text(self.LONGEST)
            raise forms.ValidationError(f"It is from {low} to {high}, not {text}.")
        return length

    def prepare_value(self, value: Any) -> Any:
        """Return stored seconds as they are written; what was typed stays as it was typed."""
        return durations.duration_text(value) if isinstance(value, int) else value


class LinesField(forms.CharField):
    """A list, one entry a line."""

    widget = forms.Textarea

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)
        self.widget.attrs |= {"rows": 3, "class": "code", "spellcheck": "false"}

    def clean(self, value: Any) -> Any:
        """Return the lines that are not empty, trimmed."""
        text = super().clean(value)
        return [line.strip() for line in text.splitlines() if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        """Return a stored list as lines."""
        return "\n".join(value) if isinstance(value, list) else value


class LabelsField(LinesField):
    """Node labels, one `name=value` a line."""

    def clean(self, value: Any) -> Any:
        """Return the labels as a dict; refuse a line that is none."""
        found: dict[str, str] = {}
        for line in super().clean(value):
            name, equals, label = (part.strip() for part in line.partition("="))
            if not (name and equals and label):
                raise forms.ValidationError(f"A label is written name=value; {line!r} is not.")
            found[name] = label
        return found

    def prepare_value(self, value: Any) -> Any:
        """Return stored labels as lines."""
        return (
            "\n".join(f"{name}={label}" for name, label in value.items())
            if isinstance(value, dict)
            else value
        )


class LongSelect(forms.Select):
    """A select of thousands of choices, none in a group: written out here, for a template for each takes a while."""

    def optgroups(self, name: str, value: list[str], attrs: dict[str, Any] | None = None) -> list[Any]:  # noqa: ARG002 - the base class's signature
        """Return none: the template writes the frame only."""
        return []

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        """Return the frame with the options in it, as Django writes them."""
        begin, end, after = super().render(name, value, attrs, renderer).rpartition("\n</select>")
        chosen = next((str(key) for key, _ in self.choices if str(key) in self.format_value(value)), None)
        options = format_html_join(
            "",
            '\n  <option value="{}"{}>{}</option>\n',
            (
                (key, mark_safe(" selected") if str(key) == chosen else "", label)
                for key, label in self.choices
            ),
        )
        return mark_safe(begin + options + end + after)  # noqa: S308 - both parts are escaped
