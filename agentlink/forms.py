"""Forms of the cluster pages."""

from django import forms

from agentlink.models import Backend


class ClusterForm(forms.Form):
    """A cluster to connect."""

    name = forms.SlugField(
        max_length=60,
        help_text="Small letters, digits and hyphens; it names the cluster everywhere from now on.",
    )
    backend = forms.ChoiceField(
        choices=Backend.choices,
        initial=Backend.NATIVE,
        help_text="Simulated: an agent that plays pods with timers, to try things out.",
    )
