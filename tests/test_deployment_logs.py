"""Logs in a deployment of several processes: who looks is in another one than the agent's connection."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from rig.deployment import Deployment
from tests.deployment_fixtures import becomes, started, submit

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.usefixtures("mended")]

Event = tuple[str, dict[str, Any]]


@contextmanager
def following(team: Deployment, url: str, slug: str) -> Iterator[Iterator[Event]]:
    """Give the events of a workload's first pod as a live process tells them."""
    headers = {"Authorization": f"Bearer {team.token('rosa')}", "Accept": "text/event-stream"}
    address = f"{url}/api/v1/workloads/{slug}/logs/"
    with httpx.stream("GET", address, headers=headers, params={"follow": "true"}, timeout=60) as stream:
        assert stream.status_code == 200
        yield events(stream.iter_lines())


def events(lines: Iterator[str]) -> Iterator[Event]:
    kind = ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


def test_a_log_goes_through_two_processes_and_on_when_the_agents_one_restarts(team: Deployment) -> None:
    slug = submit(team, command=["train", "--seconds", "600"])
    becomes(team, slug, "running")
    with started(team, "live") as other, following(team, other.url, slug) as told:
        text, codes = "", []
        for kind, data in told:
            if kind == "lines":
                text += data["text"]
            else:
                codes.append(data["code"])
            if text and not codes:
                team.services["live"].restart()
                codes.append("restarted")
            elif codes[-1:] == ["back"] and kind == "lines":
                break
        assert codes == ["restarted", "away", "back"]
        steps = [int(line.split()[1]) for line in text.splitlines() if line.startswith("step")]
        assert steps == list(range(20, 20 * len(steps) + 1, 20))  # none is missing, none comes twice
        with team.api("rosa") as api:
            assert api.post(f"workloads/{slug}/cancel/").status_code == 200
        last = [(kind, data) for kind, data in told][-1]
        assert last[0] == "end"
    with team.api("rosa") as api:
        kept = api.get(f"{team.live_url}/api/v1/workloads/{slug}/logs/", params={"tail": "1"})
    assert kept.text == "SIGTERM received: a checkpoint is written\n"


def test_a_live_process_that_stops_ends_the_streams_of_logs_and_who_comes_again_goes_on(
    team: Deployment,
) -> None:
    slug = submit(team, command=["train", "--seconds", "600"])
    becomes(team, slug, "running")
    with started(team, "live") as other, following(team, other.url, slug) as told:
        assert next(told)[0] == "lines"
        assert other.stop() == 0
        assert not [data for kind, data in told if kind == "end"]
    with team.api("rosa") as api:
        assert api.post(f"workloads/{slug}/cancel/").status_code == 200
