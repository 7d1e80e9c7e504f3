"""The forms of an environment: its name and team, and what a version has."""

import re
from collections.abc import Iterable
from typing import Any

from django import forms

from chamber import invalid
from chamber.errors import Refusal
from chamber.forms import Form
from teams.fields import LongSelect
from workloads.data.written import as_text
from workloads.environments.actions import values_of
from workloads.form_values import command_text
from workloads.forms import pairs
from workloads.models import EnvironmentVersion

PAIRS = ("variables", "node_selector")
LISTS = ("gpu_types", "mounts")


def _line(label: str, help_text: str = "", **attributes: Any) -> forms.CharField:
    field = forms.CharField(label=label, help_text=help_text, required=False, strip=False)
    field.widget.attrs.update({"autocomplete": "off", **attributes})
    return field


def _area(label: str, help_text: str) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": 3, "class": "code", "spellcheck": "false"})
    return forms.CharField(label=label, help_text=help_text, required=False, strip=False, widget=widget)


class VersionForm(Form):
    """What a version has; `EnvironmentValues` says what is wrong with it."""

    image = _line("Image", "By its digest, name@sha256:…, it stays the same.", maxlength=300)
    command = _area("Command", "Run by sh -c where a workload says nothing. Empty: what the image runs.")
    variables = _area("Variables", "NAME=value, one on each line. No secrets: those are credentials.")
    mounts = _line("Data", "Data sources and where pods have them, as imagenet:/data, parted by commas.")
    working_dir = _line("Working folder", "Such as /workspace. Empty: the image's own.")
    shm_mib = _line("Shared memory per pod", "For example 16 GiB. Empty: half of the pod's memory.")
    scratch_mib = _line("Scratch per pod", "Disk at /scratch, for example 200 GiB. Empty: none.")
    gpu_types = _line("GPU types", "Best first, parted by commas. Empty takes any.")
    node_selector = _area("Node labels", "name=value, one on each line.")
    pull_credential = _line(
        "Pull credential", "Of the type registry, of this team or of one above it, as nlp/registry."
    )
    note = _line("Note", "What is new in it.", maxlength=200)

    OPTIONAL = (
        *(
            "command",
            "variables",
            "mounts",
            "working_dir",
            "shm_mib",
            "scratch_mib",
            "gpu_types",
            "node_selector",
        ),
        *("pull_credential", "note"),
    )

    @property
    def optional(self) -> list[forms.BoundField]:
        """Return the fields that may stay empty."""
        return [self[name] for name in self.OPTIONAL]

    def values(self) -> dict[str, Any]:
        """Return what was typed, as the API has it; raise a `Refusal` for lines that cannot be read."""
        found: dict[str, Any] = {}
        wrong: dict[str, str] = {}
        for name in ("image", *self.OPTIONAL):
            typed = str(self.cleaned_data.get(name) or "").strip()
            if not typed:
                continue
            found[name] = typed
            if name in PAIRS:
                found[name], told = pairs(typed)
                wrong |= {name: invalid.together(told)} if told else {}
            elif name in LISTS:
                found[name] = [word for word in re.split(r"[,\s]+", typed) if word]
        if wrong:
            raise Refusal(" ".join(wrong.values()), fields=wrong, code="invalid")
        return found


class NewEnvironmentForm(VersionForm):
    """An environment to be made, with its first version."""

    name = forms.CharField(
        label="Name", required=False, help_text="Small letters, digits, dots, hyphens: pytorch-2.5. It stays."
    )
    team = forms.ChoiceField(label="Team", widget=LongSelect, help_text="It and the teams below may use it.")

    def __init__(self, *args: Any, teams: Iterable[tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["team"].choices = list(teams)  # type: ignore[attr-defined]  # a ChoiceField's


def initial_of(version: EnvironmentVersion) -> dict[str, str]:
    """Return what the form of the next version shows: what this one has, without its note."""
    values = values_of(version) | {"note": "", "mounts": [as_text(each) for each in version.mounts]}
    shown = {name: str(value) if value is not None else "" for name, value in values.items()}
    shown |= {name: "\n".join(f"{key}={text}" for key, text in values[name].items()) for name in PAIRS}
    shown |= {name: ", ".join(values[name]) for name in LISTS}
    shown |= {name: f"{values[name]} MiB" if values[name] else "" for name in ("shm_mib", "scratch_mib")}
    return {**shown, "command": command_text(values["command"])}
