"""Forms of the cluster pages."""

from collections.abc import Iterable
from typing import Any, cast

from django import forms

from agentlink.models import Backend
from chamber.forms import Form
from teams.fields import LongSelect


class ClusterForm(Form):
    """A cluster to connect."""

    name = forms.CharField(
        max_length=60,
        help_text="Small letters, digits and hyphens; it names the cluster everywhere from now on.",
    )
    backend = forms.ChoiceField(
        choices=Backend.choices,
        initial=Backend.NATIVE,
        help_text="Simulated: an agent that plays pods with timers, to try things out.",
    )


class NamespaceForm(Form):
    """A namespace to bind to a team."""

    team = forms.ChoiceField(label="Team", widget=LongSelect)
    namespace = forms.CharField(
        max_length=63,
        help_text="Small letters, digits and hyphens. The agent makes it where it has the right to; one that exists it "
        "takes over only where it is labelled for that.",
    )

    def __init__(self, data: Any = None, *, teams: Iterable[tuple[str, str]]) -> None:
        super().__init__(data, auto_id="namespace-%s")
        cast("forms.ChoiceField", self.fields["team"]).choices = [("", "Choose a team"), *teams]
