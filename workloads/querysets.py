"""Reading rules of workloads."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Case, Count, Exists, F, OuterRef, Q, Subquery, When

from chamber.errors import MOST_SHOWN, NotVisible
from teams.models import Team
from teams.permissions import Permission, paths_where

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User
    from teams.querysets import TeamQuerySet
    from workloads.models import (
        Workload,
        WorkloadArray,  # noqa: F401 - named by a base class
    )

FIGURES_HOLD = timedelta(minutes=5)
"""A figure of what a workload makes of its GPUs that is older says nothing of now."""


class WorkloadQuerySet(models.QuerySet["Workload"]):
    """Workloads as somebody may see them."""

    def visible_to(self, user: "User | AnonymousUser") -> "WorkloadQuerySet":
        """Keep those whose name, owner, command and logs the user may see: of teams whose workloads he may
        view.

        Who may at the root sees all, without a filter. For others each row's team is looked up rather than the rows
        of each team gathered: a list then follows the index of its order and stops after a page.
        """
        paths = paths_where(user, Permission.VIEW_WORKLOADS)
        if any(path.count("/") == 2 for path in paths):
            return self.all()
        return self.of_teams(Team.objects.under_any(paths))

    def of_teams(self, teams: "TeamQuerySet") -> "WorkloadQuerySet":
        """Keep those whose team is one of `teams`, looked up for each row."""
        return self.filter(Exists(teams.order_by().filter(pk=OuterRef("team_id"))))

    def by_slug(self, slug: str) -> "Workload":
        """Return the one of these with this slug; raise `NotVisible` otherwise, with the newest that has it as its
        name.
        """
        if (found := self.filter(slug=slug).first()) is not None:
            return found
        raise NotVisible(f"There is no workload {slug[:MOST_SHOWN]!r} that you may see.{self.meant_by(slug)}")

    def meant_by(self, name: str) -> str:
        """Return a question that names the newest of these with this name, to stand after a sentence; "" for none."""
        newest = self.filter(name=name).order_by("-id").values_list("slug", flat=True).first()
        return f" Did you mean {newest!r}, the newest of that name?" if newest else ""

    def open(self) -> "WorkloadQuerySet":
        """Keep those that have not ended (an indexed part of the table)."""
        from workloads.models.workload import OPEN

        return self.filter(status__in=OPEN)

    def with_idle_gpus(self, now: datetime) -> "WorkloadQuerySet":
        """Keep those that hold GPUs which stand idle, as far as that is known now.

        Use is reached by the names of its relations: the room that owns it lies above this one.
        """
        from workloads.models.workload import ADMITTED

        return self.filter(
            status__in=ADMITTED,
            attempt__gpu_use__idle_milli__gt=0,
            attempt__gpu_use__at__gte=now - FIGURES_HOLD,
        )

    def with_idleness(self, now: datetime) -> "WorkloadQuerySet":
        """Add to each how much of what it holds stands idle (`idle_milli`, None where nobody knows) and since when."""
        known = When(attempt__gpu_use__at__gte=now - FIGURES_HOLD, then=F("attempt__gpu_use__idle_milli"))
        return self.annotate(idle_milli=Case(known), idle_since=F("attempt__gpu_use__idle_since"))

    def with_placed_pods(self) -> "WorkloadQuerySet":
        """Add to each admitted one how many of its pods have GPUs (`placed_pods`; None of another).

        Only of those that run with fewer than they ask for the placements are looked at, by the name of their
        relation: the app that owns them lies above this one.
        """
        from workloads.models import Attempt
        from workloads.models.workload import ADMITTED

        attempts = Attempt.objects.filter(open_for=OuterRef("pk"), placements__hold__in=("promised", "held"))
        counted = attempts.order_by().values("pk").annotate(n=Count("placements__pod_index", distinct=True))
        admitted = Q(status__in=ADMITTED)
        return self.annotate(
            placed_pods=Case(
                When(admitted & Q(min_pods__lt=F("pods")), then=Subquery(counted.values("n"))),
                When(admitted, then=F("pods")),
                output_field=models.IntegerField(),
            )
        )

    def with_dependence(self) -> "WorkloadQuerySet":
        """Add to each whether it starts after others (`waits_for_others`) and whether others start after it
        (`is_awaited`).
        """
        from workloads.models import Dependency

        return self.annotate(
            waits_for_others=Exists(Dependency.objects.filter(workload=OuterRef("pk"))),
            is_awaited=Exists(
                Dependency.objects.filter(Q(needs=OuterRef("pk")) | Q(needs_array=OuterRef("array")))
            ),
        )


class ArrayQuerySet(models.QuerySet["WorkloadArray"]):
    """Arrays as somebody may see them."""

    def visible_to(self, user: "User | AnonymousUser") -> "ArrayQuerySet":
        """Keep those of teams whose workloads the user may view, as workloads are kept."""
        paths = paths_where(user, Permission.VIEW_WORKLOADS)
        if any(path.count("/") == 2 for path in paths):
            return self.all()
        teams = Team.objects.under_any(paths)
        return self.filter(Exists(teams.order_by().filter(pk=OuterRef("team_id"))))
