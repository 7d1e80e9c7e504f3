"""A deployment whose Redis is watched by sentinels goes on with the other server when the master dies."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from redis import RedisError

from chamber import sentinels
from chamber.sentinels import Sentinels
from rig import deployment
from rig.sentinels import PASSWORD, WatchedRedis, watched
from tests.deployment_fixtures import CLUSTER, becomes, submit
from tests.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[WatchedRedis]:
    with watched(tmp_path) as running:
        yield running


def test_workloads_run_before_and_after_the_master_died_and_a_client_follows_it(redis: WatchedRedis) -> None:
    named = Sentinels.parse(redis.url)
    assert named is not None
    assert named.password == PASSWORD
    client = sentinels.client(redis.url, socket_timeout=5, socket_connect_timeout=5)

    def is_known() -> bool:
        try:
            return client.get("known") == b"before"
        except RedisError:
            return False

    with closing(client), deployment.running(environment={"CHAMBER_REDIS": redis.url}) as team:
        team.add_agent(CLUSTER, deployment.nodes(CLUSTER, 1))
        becomes(team, submit(team), "completed")
        client.set("known", "before")
        # The replica has it before the master dies: what Redis replicates late may be lost, as ever.
        assert client.wait(1, 5000) == 1

        redis.fail_over()

        until(is_known)
        becomes(team, submit(team), "completed")
        # All that uses Redis has found the new master: readiness of live, bells, duties, announcements.
        team.services["live"].wait_for("/readyz")
        doctor = team.run("-m", "chamber.cli", "doctor", "--json")
        found = {finding["check"] for finding in json.loads(doctor.stdout)["findings"]}
        assert not found & {"redis", "redis-clock", "channel-layer", "beat", "scheduler"}
