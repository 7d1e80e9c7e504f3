"""One small form per act on people."""

from collections.abc import Iterable
from typing import Any, cast

from django import forms

from chamber.forms import Form
from chamber.people.leaving import Leaving
from chamber.people.reading import PersonState
from chamber.people.values import LONGEST_NAME
from teams.fields import LongSelect

STATE_NAMES = {PersonState.ACTIVE: "Active", PersonState.INVITED: "Invited", PersonState.DISABLED: "Disabled"}


class InviteForm(Form):
    """Somebody to let in."""

    username = forms.CharField(
        label="User name", max_length=60, help_text="Small letters, digits, dots, hyphens, underscores."
    )
    name = forms.CharField(
        label="Name", max_length=LONGEST_NAME, required=False, help_text="As others see it."
    )
    email = forms.CharField(label="E-mail address", max_length=254, required=False, widget=forms.EmailInput)
    team = forms.ChoiceField(label="Team", required=False)
    role = forms.ChoiceField(label="Role", required=False)

    def __init__(
        self,
        data: Any = None,
        *,
        teams: Iterable[tuple[str, str]],
        roles: Iterable[tuple[str, str]],
        mail: bool,
        needs_team: bool,
    ) -> None:
        super().__init__(data)
        none = [] if needs_team else [("", "No role yet")]
        self.fields["team"].choices = [*none, *teams]  # type: ignore[attr-defined]  # a ChoiceField's
        self.fields["role"].choices = [*none, *roles]  # type: ignore[attr-defined]  # as above
        self.fields["team"].required = self.fields["role"].required = needs_team
        if mail:
            self.fields["email"].help_text = "The link is mailed there. Empty: it is shown to you, once."


class PersonForm(Form):
    """Name and e-mail address of somebody."""

    name = forms.CharField(
        label="Name", max_length=LONGEST_NAME, required=False, help_text="As others see it."
    )
    email = forms.CharField(label="E-mail address", max_length=254, required=False, widget=forms.EmailInput)


class CsvForm(Form):
    """A list of people: a file, or its text."""

    file = forms.FileField(label="CSV file", required=False, allow_empty_file=True)
    text = forms.CharField(
        label="Or its text",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "class": "mono"}),
    )

    def clean(self) -> dict[str, Any]:
        """Refuse both, and neither."""
        values = super().clean() or {}
        if "file" in self.errors or "text" in self.errors:
            return values
        if bool(values.get("file")) == bool((values.get("text") or "").strip()):
            both = bool(values.get("file"))
            self.add_error(
                "text", "Give a file or its text, not both." if both else "Give a file or its text."
            )
        return values


class RoleForm(Form):
    """A role to give somebody, and the team it is on."""

    team = forms.ChoiceField(label="Team", widget=LongSelect)
    role = forms.ChoiceField(label="Role", help_text="It reaches the team and all below it.")

    def __init__(
        self, data: Any = None, *, teams: Iterable[tuple[str, str]], roles: Iterable[tuple[str, str]]
    ) -> None:
        super().__init__(data, auto_id="role-%s")
        cast("forms.ChoiceField", self.fields["team"]).choices = list(teams)
        cast("forms.ChoiceField", self.fields["role"]).choices = list(roles)


class DisableForm(Form):
    """What becomes of the open workloads of somebody who is put out."""

    workloads = forms.ChoiceField(
        label="Their open workloads",
        choices=[
            (Leaving.LEAVE, "Stay as they are"),
            (Leaving.HAND_OVER, "Are handed over"),
            (Leaving.CANCEL, "Are cancelled"),
        ],
        initial=Leaving.LEAVE,
    )
    to = forms.CharField(
        label="Handed over to",
        max_length=254,
        required=False,
        help_text="User name or e-mail address of somebody who may submit to the same teams.",
    )


class LinkForm(Form):
    """A password for the first time, or a new one, twice."""

    password1 = forms.CharField(
        label="New password",
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="12 to 128 characters, not easily guessed: several uncommon words, say.",
    )
    password2 = forms.CharField(
        label="New password, again",
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, Any]:
        """Refuse two that differ."""
        values = super().clean() or {}
        if values.get("password1") and values.get("password2") not in {None, values.get("password1")}:
            self.add_error("password2", "The two passwords differ.")
        return values
