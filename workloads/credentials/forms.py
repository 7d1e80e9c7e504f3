"""The form of a credential. What was typed of a secret is never shown again, also where the form is refused."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from chamber.errors import Refusal
from chamber.forms import Form
from teams.fields import LongSelect
from workloads.credentials.kinds import PARTS, CredentialPart, PartShape, SecretUse
from workloads.models import CredentialKind

OWN = ""
"""The choice of whose it is that means one's own."""


class _Unshown(forms.Textarea):
    """A text area that comes back empty."""

    def format_value(self, value: Any) -> str | None:  # noqa: ARG002 - the base class's signature
        """Show nothing of what was typed."""
        return None


class _SeveralFiles(forms.ClearableFileInput):
    allow_multiple_selected = True


class _FilesField(forms.FileField):
    widget = _SeveralFiles

    def clean(self, data: Any, initial: Any = None) -> Any:  # noqa: ARG002 - the base class's signature
        """Return the files as they are; what is wrong with them is said with the other parts."""
        return list(data or []) if isinstance(data, list | tuple) else [data] if data else []


def _field(part: CredentialPart) -> forms.Field:
    if part.shape is PartShape.FILES:
        return _FilesField(label=part.label, help_text=part.help, required=False)
    widget: forms.Widget = forms.TextInput(attrs={"autocomplete": "off"})
    if part.shape is PartShape.PAIRS:
        attrs = {"rows": 6, "class": "code", "spellcheck": "false", "autocomplete": "off"}
        # Nor does the browser keep it where the session ended meanwhile.
        widget = _Unshown(attrs={**attrs, "data-secret": ""}) if part.secret else forms.Textarea(attrs=attrs)
    elif part.name == "use":
        widget = forms.Select(choices=[(use.value, use.value.capitalize()) for use in SecretUse])
    elif part.secret:
        widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
    return forms.CharField(label=part.label, help_text=part.help, required=False, strip=False, widget=widget)


class ValuesForm(Form):
    """The parts that a kind of credential has."""

    def __init__(self, data: Any = None, files: Any = None, *, kind: CredentialKind, **options: Any) -> None:
        super().__init__(data, files, **options)
        self.kind = kind
        for part in PARTS[kind]:
            self.fields[part.name] = _field(part)

    @property
    def parts(self) -> list[tuple[forms.BoundField, bool]]:
        """The fields of the kind's parts, and whether each may stay empty."""
        return [(self[part.name], not part.required) for part in PARTS[self.kind]]

    def content(self) -> dict[str, Any]:
        """Return what was typed, as the API has it; raise a `Refusal` for a line or a file that cannot be read."""
        found: dict[str, Any] = {}
        for part in PARTS[self.kind]:
            given = self.cleaned_data.get(part.name)
            if part.shape is PartShape.PAIRS:
                given = _pairs(part, str(given or ""))
            elif part.shape is PartShape.FILES:
                given = {str(each.name): _text(part, each) for each in given or []}
            found[part.name] = given
        return found


class NewCredentialForm(ValuesForm):
    """A credential to be made: whose it is, and what it is called."""

    name = forms.CharField(
        label="Name", max_length=60, help_text="Small letters, digits, hyphens: hf-token. It stays."
    )
    team = forms.ChoiceField(label="Whose it is", required=False, widget=LongSelect)

    def __init__(self, *args: Any, teams: Iterable[tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["team"].choices = [(OWN, "My own"), *teams]  # type: ignore[attr-defined]  # a ChoiceField's


def _pairs(part: CredentialPart, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise Refusal(f"Line {number} has no =; write NAME=value on each line.", field=part.name)
        if name.strip() in found:
            raise Refusal(f"Line {number} gives {name.strip()[:80]!r} again.", field=part.name)
        found[name.strip()] = value.strip()
    return found


def _text(part: CredentialPart, file: "UploadedFile[Any]") -> str:
    try:
        return bytes(file.read()).decode()
    except UnicodeDecodeError as error:
        raise Refusal(
            f"The file {str(file.name)[:80]!r} is no text; encode it as base64 first.", field=part.name
        ) from error
