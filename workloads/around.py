"""What holds for a subtree is seen from all of it: of which teams somebody sees environments and credentials."""

from collections.abc import Iterable

from django.db.models import Q

from teams.models import Team


def around(paths: Iterable[str]) -> Q | None:
    """Return the teams below these paths, and those above them; None where there are no paths."""
    wanted = set(paths)
    if not wanted:
        return None
    found = Q()
    for path in wanted:
        found |= Q(path__startswith=path)
    above = {Team(path=path).ancestor_ids()[place] for path in wanted for place in range(path.count("/") - 2)}
    return found | Q(pk__in=above) if above else found
