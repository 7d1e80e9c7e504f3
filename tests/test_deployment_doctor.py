"""`chamber doctor` beside a running deployment: well, and with each part of it missing."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import psycopg
import pytest

from rig.deployment import Deployment
from tests.deployment_fixtures import deployed
from tests.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PAUSE_SECONDS = 0.5
"""Between two doctors, each a process of its own: what is waited for gets the processor."""


@pytest.fixture(scope="module")
def team() -> Iterator[Deployment]:
    """A deployment of which nothing but these tests stops a part, or leaves a cluster without its agent."""
    with deployed() as running:
        yield running


def findings(team: Deployment) -> dict[str, str]:
    """Return what the doctor finds, by check; over plain HTTP on loopback, cookies are what they are."""
    done = team.run("-m", "chamber.cli", "doctor", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == (1 if told["findings"] else 0), done.stderr
    return {
        found["check"]: f"{found['problem']} {found['advice']}"
        for found in told["findings"]
        if found["check"] != "tls"
    }


def well(team: Deployment) -> None:
    """Wait until the doctor finds nothing; what an earlier test stopped may still be on its way up."""
    deadline = time.monotonic() + 180
    while found := findings(team):
        assert time.monotonic() < deadline, found
        time.sleep(PAUSE_SECONDS)


def found_after(team: Deployment, statement: str, check: str) -> str:
    """Have what was marked lately be five minutes old, as silence counts from 30 seconds; return what is found then.

    A process that was stopped may have left something under way that marks once more, and beat and workers are not
    judged while Redis has just come back.
    """

    def found() -> str | None:
        with psycopg.connect(team.database.url, autocommit=True) as connection:
            connection.execute(statement.encode())
        told = findings(team).get(check)
        return None if told is not None and "Redis runs for" in told else told

    return until(found, every=PAUSE_SECONDS)


MARKS = "UPDATE chamber_mark SET at = at - interval '5 minutes' WHERE name <> 'totals'"
TURN = "UPDATE scheduling_turn SET looked_at = looked_at - interval '5 minutes'"


@contextmanager
def stopped(team: Deployment, name: str) -> Iterator[None]:
    """Stop a service inside the block."""
    team.services[name].stop()
    try:
        yield
    finally:
        team.services[name].start()


def test_a_deployment_that_runs_is_well(team: Deployment) -> None:
    well(team)


def test_a_beat_that_stopped_is_silent(team: Deployment) -> None:
    well(team)
    with stopped(team, "beat"):
        until(lambda: _waiting(team, "duties") == 0)
        assert found_after(team, MARKS, "duties").endswith(
            "so the beat is silent. Start `chamber beat`, or look into its log."
        )


def test_a_worker_that_stopped_leaves_messages_waiting(team: Deployment) -> None:
    well(team)
    with stopped(team, "worker"):
        until(lambda: _waiting(team, "duties") > 0)
        assert found_after(team, MARKS, "duties").endswith(
            "so the beat sends but no worker takes them. Start `chamber worker --queue duties`."
        )


def test_a_scheduler_that_stopped_runs_no_cycles(team: Deployment) -> None:
    well(team)
    with stopped(team, "scheduler"):
        until(lambda: _waiting(team, "scheduling") > 0)
        assert found_after(team, TURN, "scheduler").endswith("Start `chamber worker --queue scheduling`.")


@pytest.mark.parametrize("part", ["web", "live"])
def test_a_part_that_stopped_is_missed(team: Deployment, part: str) -> None:
    well(team)
    with stopped(team, part):
        told = until(lambda: findings(team).get(part), every=PAUSE_SECONDS)
    assert told.startswith(f"No process of the part {part} runs: ")
    assert told.endswith(f"Start `chamber serve --part {part}`, or look into its log.")


@pytest.mark.parametrize("part", ["web", "live"])
def test_a_part_that_was_killed_is_missed(team: Deployment, part: str) -> None:
    well(team)
    team.services[part].kill()
    try:
        assert " was heard for 5 minutes: " in found_after(team, MARKS, part)
    finally:
        team.services[part].start()


def test_requests_of_all_processes_stand_on_one_page(team: Deployment) -> None:
    for url in (team.web_url, team.live_url):
        for _ in range(5):
            httpx.get(f"{url}/livez", timeout=60)

    def counted() -> bool:
        marker = 'chamber_http_requests_total{code="200",method="GET",route="/livez"} '
        page = _page(team)
        return marker in page and float(page.split(marker)[1].split("\n")[0]) >= 10

    until(counted)


def test_redis_that_was_dropped(team: Deployment) -> None:
    team.redis.stop()
    try:
        with psycopg.connect(team.database.url, autocommit=True) as connection:
            connection.execute(MARKS.encode())
        found = findings(team)
        assert found["redis"].startswith("Redis does not answer: ")
        assert not {"duties", "scheduler"} & found.keys(), "their queues cannot be read"
        page = httpx.get(f"{team.web_url}/metrics", timeout=60).text
    finally:
        team.redis.start()
    assert "\nchamber_redis_up 0.0\n" in page
    assert "\nchamber_database_up 1.0\n" in page


def test_what_every_process_knows_is_on_one_page(team: Deployment) -> None:
    for line in (
        'chamber_worker_last_seen_timestamp_seconds{queue="duties"} 1.',
        'chamber_cluster_connected{cluster="east"} 1.0',
        "chamber_cycle_last_success_timestamp_seconds 1.",
        'chamber_queue_messages{queue="scheduling"} ',
    ):
        until(lambda line=line: line in _page(team))  # type: ignore[misc]


def test_records_of_all_processes_are_json_with_the_same_fields(team: Deployment) -> None:
    for service in team.services.values():
        lines = [line for line in service.printed().splitlines() if line]
        for line in lines:
            assert {
                "time",
                "level",
                "logger",
                "message",
                "request_id",
                "cycle",
                "workload",
                "cluster",
            } <= json.loads(line).keys(), f"{service.name}: {line}"


def _page(team: Deployment) -> str:
    return httpx.get(f"{team.web_url}/metrics", timeout=60).text


def _waiting(team: Deployment, queue: str) -> int:
    marker = f'chamber_queue_messages{{queue="{queue}"}} '
    return int(float(_page(team).split(marker)[1].split("\n")[0]))
