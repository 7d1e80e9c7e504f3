"""Forms of the cluster pages."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from django import forms

from agentlink.models import BackendKind
from chamber.forms import Form
from teams.fields import LongSelect
from teams.models import Pool


class ClusterForm(Form):
    """A cluster to connect."""

    name = forms.CharField(
        max_length=60,
        help_text="Small letters, digits and hyphens; it names the cluster everywhere from now on.",
    )
    backend = forms.ChoiceField(
        choices=BackendKind.choices,
        initial=BackendKind.NATIVE,
        help_text="Simulated: an agent that plays pods with timers, to try things out.",
    )
    pools = forms.MultipleChoiceField(
        label="Pools that it may serve",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Of no other pool anything starts there, whatever the labels of its nodes. Can be changed later.",
    )

    def __init__(self, data: Any = None, *, pools: Sequence[Pool], is_first: bool) -> None:
        super().__init__(data)
        self._pools = {pool.slug: pool for pool in pools}
        field = cast("forms.MultipleChoiceField", self.fields["pools"])
        field.choices = [(pool.slug, pool.name) for pool in pools]
        # An organisation's first cluster is most likely meant for all that there is.
        field.initial = [pool.slug for pool in pools if is_first and not pool.clusters]
        if not pools:
            del self.fields["pools"]

    def chosen_pools(self) -> list[Pool]:
        """Return the pools that were chosen."""
        return [self._pools[slug] for slug in self.cleaned_data.get("pools", [])]


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
