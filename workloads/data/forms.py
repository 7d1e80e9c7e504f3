"""The forms of a data source: what it is, and a cluster that has it."""

from collections.abc import Iterable
from typing import Any

from django import forms

from chamber.forms import Form
from teams.fields import LongSelect
from workloads.data.values import DETAILS
from workloads.models import SourceKind


def _line(label: str, help_text: str) -> forms.CharField:
    field = forms.CharField(label=label, help_text=help_text, required=False, strip=True)
    field.widget.attrs["autocomplete"] = "off"
    return field


class SourceForm(Form):
    """What of a source may be changed."""

    server = _line("Server", "Of NFS: its host, such as nfs.example.org.")
    path = _line("Path", "Of NFS: what of the server, such as /export/imagenet.")
    address = _line("Address", "Of S3: s3://BUCKET or s3://BUCKET/PREFIX.")
    writable = forms.BooleanField(label="Workloads may mount it to write", required=False)

    def details(self, kind: SourceKind) -> dict[str, str]:
        """Return the details that the kind has, or that were typed though it has them not."""
        typed = {name: str(self.cleaned_data.get(name) or "") for name in ("server", "path", "address")}
        return {name: text for name, text in typed.items() if text or name in DETAILS[kind]}


class NewSourceForm(SourceForm):
    """A data source to be made."""

    name = forms.CharField(
        label="Name", required=False, help_text="Small letters, digits, dots, hyphens: imagenet. It stays."
    )
    team = forms.ChoiceField(
        label="Team", widget=LongSelect, help_text="It and the teams below may mount it."
    )
    kind = forms.ChoiceField(label="Kind", choices=SourceKind.choices)
    credential = _line("Credential", "Of S3: of the type s3, of this team or of one above it, as nlp/data.")

    def __init__(self, *args: Any, teams: Iterable[tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["team"].choices = list(teams)  # type: ignore[attr-defined]  # a ChoiceField's


class LocationForm(Form):
    """A cluster that has a source. Of a claim: what it is called there, for pods of which namespace."""

    cluster = forms.CharField(label="Cluster", max_length=100)
    namespace = forms.CharField(
        label="Namespace",
        max_length=100,
        required=False,
        help_text="Whose pods may mount the claim. Empty: the agent's own.",
    )
    claim = forms.CharField(
        label="Claim", max_length=253, required=False, help_text="The PersistentVolumeClaim's name there."
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, auto_id="locate-%s")
        for field in self.fields.values():
            field.widget.attrs["autocomplete"] = "off"
