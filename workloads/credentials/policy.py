"""Which Secrets of clusters workloads may be handed: those that the rules of their team name.

A pattern is `NAME`, `NAMESPACE/NAME` or `CLUSTER/NAMESPACE/NAME`; in each part `*` stands for any characters. The
namespace and the cluster are known once a workload is placed: before, only the name is judged.
"""

from fnmatch import fnmatchcase

from teams.models import Team
from teams.rules import EffectiveRules
from workloads.models import Credential, CredentialKind


def problem(row: Credential, team: Team, rules: EffectiveRules) -> str:
    """Return why no workload of a team may be handed what a credential refers to; "" where one may be, somewhere."""
    if row.kind != CredentialKind.SECRET or any(
        fnmatchcase(row.details["secret"], each.rpartition("/")[2]) for each in rules.cluster_secrets
    ):
        return ""
    allowed = ", ".join(rules.cluster_secrets) or "none"
    return (
        f"{row.reference} is the Secret {row.details['secret']!r} of a cluster, and the rules of {team.name} allow "
        f"{allowed} (cluster_secrets). An admin can allow more in the rules of a team above."
    )


def is_allowed(secret: str, rules: EffectiveRules, *, cluster: str, namespace: str) -> bool:
    """Return whether a workload that runs there may be handed this Secret."""
    whole = f"{cluster}/{namespace}/{secret}"
    return any(
        fnmatchcase(whole, "/".join(["*", "*", *each.split("/")][-3:])) for each in rules.cluster_secrets
    )
