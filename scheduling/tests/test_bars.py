"""What the database adds up is what pages show, team by team."""

from collections import Counter

from django.utils import timezone

from scheduling.cycle.cycle import run_cycle
from scheduling.explain.allocations import team_bars
from scheduling.explain.bars import Holding, holdings
from scheduling.tests.conftest import Acme
from teams.actors import Actor
from teams.tests.factories import make_pool, make_team, set_share
from workloads import lifecycle
from workloads.models import Workload
from workloads.tests.factories import make_workload


def test_parts_are_added_up_by_what_they_are_charged_to(acme: Acme) -> None:
    make_workload(acme.production, acme.outsider, gpu_milli=1000, pods=6, min_pods=6)
    make_workload(acme.production, acme.outsider, gpu_milli=250)
    run_cycle()
    production = acme.production.pk.hex
    assert sorted(holdings()) == [
        Holding(acme.pool.pk.hex, production, "", 2250),
        Holding(acme.pool.pk.hex, production, production, 4000),
    ]


def test_nothing_is_held_by_what_is_over_or_waits(acme: Acme) -> None:
    make_workload(acme.research, acme.owner)
    assert holdings() == []
    run_cycle()
    lifecycle.cancel_many(
        Workload.objects.values_list("pk", flat=True), by=Actor.system("tests"), at=timezone.now()
    )
    assert holdings() == []


def test_the_sums_are_those_of_the_pages(acme: Acme) -> None:
    nlp = make_team(acme.research, "NLP")
    set_share(nlp, acme.pool, gpus=2)
    make_pool("Lab", order=1)
    for team, person in ((nlp, acme.owner), (acme.research, acme.owner), (acme.production, acme.outsider)):
        make_workload(team, person, gpu_milli=1000, pods=3, min_pods=3)
        make_workload(team, person, gpu_milli=500, priority=100)
    run_cycle()
    held = Counter[str]()
    for holding in holdings():
        held[holding.team] += holding.milli
    bars = {bar.team.pk.hex: bar.use.in_use_milli for bar in team_bars(acme.admin, acme.pool)}
    assert held[nlp.pk.hex] == bars[nlp.pk.hex] > 0
    assert held[nlp.pk.hex] + held[acme.research.pk.hex] == bars[acme.research.pk.hex]
    assert sum(held.values()) == bars[acme.root.pk.hex]
