"""Servers that are away, and processes that are there twice: delay, and nothing else."""

import signal
import time

import pytest

from rig import servers
from rig.deployment import Deployment
from tests.deployment_fixtures import (
    PARTS,
    becomes,
    notice,
    queued,
    says,
    started,
    status_of,
    stop_all,
    submit,
    told,
)
from tests.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.usefixtures("mended")]


def test_redis_wrong_at_the_start_is_said_and_found_when_it_comes(team: Deployment) -> None:
    later = servers.Redis(team.folder)
    for name in PARTS:
        with started(team, name, CHAMBER_REDIS=later.url) as service:
            until(lambda service=service: says(service, "Redis"))  # type: ignore[misc]
            assert service.running
            if name == "web":
                service.wait_for("/readyz")


OF_ITS_PACE = (
    # Other tests start a second beat, of which a loaded worker hears after their end.
    "More than one beat sends the duties (",
    # A loaded machine may keep the agent from being heard for half a minute.
    "Its agent is out of touch: ",
)
"""How warnings begin that tell of how slow the machine is, or was, not of a server that is away."""


def tells_of(team: Deployment, server: str, *parts: str) -> None:
    """Look that each process said once that the server went, nothing else, and says that it is back."""
    for name in parts:
        service = team.services[name]
        until(lambda service=service: any(f"{server} is back" in one for one in told(service, least="INFO")))  # type: ignore[misc]
        said = [line for line in told(service) if not line.startswith(OF_ITS_PACE)]
        assert len(said) == 1, f"{name} said {said}"
        assert said[0].startswith(f"{server} is away: ")


def test_redis_away_for_a_while_costs_delay_only(team: Deployment) -> None:
    before = submit(team, command=["sleep", "600"])
    becomes(team, before, "running")
    team.redis.stop(signal.SIGKILL)
    during = submit(team)
    notice(team, "Redis", "live", "worker", "scheduler", "beat")
    assert all(team.services[name].running for name in PARTS)
    assert status_of(team, before) == "running"
    team.redis.start()
    becomes(team, during, "completed")
    becomes(team, submit(team), "completed")
    tells_of(team, "Redis", "live", "worker", "scheduler", "beat")
    with team.api("rosa") as api:
        api.post(f"workloads/{before}/cancel/")


def test_postgresql_restarted_under_load_costs_delay_only(team: Deployment) -> None:
    before = [submit(team, command=["sleep", "3"]) for _ in range(5)]
    team.database.stop(signal.SIGQUIT)
    answers = set()
    with team.api("rosa") as api:
        for _ in range(2):
            answers.add(api.get("workloads/").status_code)
    notice(team, "PostgreSQL", "live", "worker", "scheduler")
    team.database.start()
    assert answers == {503}
    for name in ("web", "live"):
        team.services[name].wait_for("/readyz")
    for slug in [*before, submit(team)]:
        becomes(team, slug, "completed")
    for name in PARTS:
        assert team.services[name].running
    tells_of(team, "PostgreSQL", "live", "worker", "scheduler")


def test_every_part_stops_in_order_while_its_servers_are_away(team: Deployment) -> None:
    team.redis.stop(signal.SIGKILL)
    team.database.stop(signal.SIGQUIT)
    notice(team, "Redis", "worker", "scheduler", "beat")
    assert stop_all(team) == [0] * len(PARTS)


def test_two_beats_and_two_schedulers_are_harmless(team: Deployment) -> None:
    with (
        started(team, "beat") as beat,
        started(team, "scheduler") as scheduler,
        started(team, "worker") as worker,
    ):
        slugs = [submit(team, command=["sleep", "2"]) for _ in range(8)]
        for slug in slugs:
            becomes(team, slug, "completed")
        with team.api("rosa") as api:
            attempts = [api.get(f"workloads/{slug}/attempts/").json()["results"] for slug in slugs]
        assert [len(tries) for tries in attempts] == [1] * len(slugs)
        assert all(one.running for one in (beat, scheduler, worker))
        assert queued(team) < 20


def test_the_other_scheduler_takes_over_when_the_first_one_stalls(team: Deployment) -> None:
    with started(team, "scheduler"):
        team.services["scheduler"].pause()
        becomes(team, submit(team), "completed")
        team.services["scheduler"].resume()
        becomes(team, submit(team), "completed")


def test_nothing_piles_up_while_no_worker_runs(team: Deployment) -> None:
    began = time.monotonic()  # whatever it takes them to stop
    team.services["worker"].stop()
    team.services["scheduler"].stop()
    time.sleep(8)
    waiting, seconds = queued(team), time.monotonic() - began
    team.services["worker"].start()
    team.services["scheduler"].start()
    until(lambda: queued(team) < 5)
    assert waiting < 7 * seconds
    becomes(team, submit(team), "completed")
