"""One small form per act on service accounts."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.conf import settings

from chamber.forms import Form
from chamber.models import Scope
from chamber.people.leaving import Leaving
from chamber.services.actions import LONGEST_OVERLAP_MINUTES, MOST_OF_LIMIT, OVERLAP_MINUTES
from chamber.services.reading import LIMIT_NAMES
from chamber.tokens import DEFAULT_DAYS, LONGEST_DAYS
from teams.fields import LongSelect

Choices = Iterable[tuple[str, str]]

SCOPES = [
    (Scope.READ, "Read: see what its roles show"),
    (Scope.SUBMIT, "Submit: also run workloads"),
    (Scope.MANAGE, "Manage: also members, and how teams share"),
    (Scope.ADMIN, "Admin: all that its roles allow"),
]


class NewServiceForm(Form):
    """A service account to be made."""

    name = forms.CharField(
        label="Name", max_length=60, help_text="Small letters, digits, hyphens: nightly-evaluation."
    )
    description = forms.CharField(
        label="Description",
        max_length=300,
        required=False,
        help_text="What uses it, and where its token lies.",
    )
    team = forms.ChoiceField(
        label="Owning team", widget=LongSelect, help_text="Its leads and admins make the tokens."
    )
    role = forms.ChoiceField(
        label="Role", required=False, help_text="On the owning team. More are given on teams' pages."
    )

    def __init__(self, data: Any = None, *, teams: Choices, roles: Choices, initial: Any = None) -> None:
        super().__init__(data, initial=initial)
        self.fields["team"].choices = list(teams)  # type: ignore[attr-defined]  # a ChoiceField's
        self.fields["role"].choices = [("", "No role yet"), *roles]  # type: ignore[attr-defined]  # as above


class ServiceForm(Form):
    """Another description, or another team to own it."""

    description = forms.CharField(label="Description", max_length=300, required=False)
    team = forms.ChoiceField(label="Owning team", widget=LongSelect)

    def __init__(self, data: Any = None, *, teams: Choices, initial: Any = None) -> None:
        super().__init__(data, initial=initial)
        self.fields["team"].choices = list(teams)  # type: ignore[attr-defined]  # a ChoiceField's


class LimitsForm(Form):
    """Limits of its own."""

    def __init__(self, data: Any = None, *, initial: Any = None) -> None:
        super().__init__(data, initial=initial)
        usual = {
            "requests_per_minute": settings.LIMITS["token"],
            "submissions_per_hour": settings.LIMITS["submissions"],
            "open_workloads": settings.LIMITS["open"],
            "streams": settings.LIMITS["streams"],
        }
        for name, label in LIMIT_NAMES.items():
            text = f"Empty: {usual[name]:,}." if usual[name] else "Empty: any number."
            self.fields[name] = forms.IntegerField(
                label=label, required=False, min_value=1, max_value=MOST_OF_LIMIT, help_text=text
            )


class ServiceTokenForm(Form):
    """A token to be made."""

    name = forms.CharField(
        label="Name", max_length=80, help_text="Where it is used: GitLab runner, cluster east."
    )
    scope = forms.ChoiceField(label="Scope", choices=SCOPES, initial=Scope.SUBMIT)
    team = forms.ChoiceField(
        label="Team",
        required=False,
        widget=LongSelect,
        help_text="It then reaches only this team and the teams below it.",
    )
    expires_in_days = forms.IntegerField(
        label="Valid for (days)", min_value=1, max_value=LONGEST_DAYS, initial=DEFAULT_DAYS
    )

    def __init__(self, data: Any = None, *, teams: Choices) -> None:
        super().__init__(data)
        choices = [("", "All that its roles reach"), *teams]
        self.fields["team"].choices = choices  # type: ignore[attr-defined]  # a ChoiceField's


class RotateForm(Form):
    """For how long the old token goes on."""

    overlap_minutes = forms.IntegerField(
        label="Old token valid for (minutes)",
        min_value=0,
        max_value=LONGEST_OVERLAP_MINUTES,
        initial=OVERLAP_MINUTES,
    )


class DisableServiceForm(Form):
    """What becomes of the open workloads of a service account that is disabled."""

    workloads = forms.ChoiceField(
        label="Its open workloads",
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
