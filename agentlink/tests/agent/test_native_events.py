"""Events: what happened is said each time, advice once."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from agentlink.agent.backends.native import events
from agentlink.agent.backends.native.events import KubeEvent
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.resources import Resource


class Api:
    """An API server that notes the names of objects."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    async def create(self, _: Resource, body: dict[str, Any], __: str) -> None:
        self.names.add(body["metadata"]["name"])


@pytest.mark.parametrize(
    ("reason", "times"),
    [("Ended", 2), ("NotStarted", 2), ("EndsByEviction", 1), ("NotRun", 1), ("Adopted", 1)],
)
async def test_what_happened_is_said_each_time_and_advice_once(
    monkeypatch: pytest.MonkeyPatch, reason: str, times: int
) -> None:
    api = Api()
    for minute in (1, 1, 2):
        now = datetime(2026, 1, 1, 0, minute, tzinfo=UTC)
        monkeypatch.setattr(events, "datetime", type("Clock", (), {"now": lambda _, now=now: now}))
        await events.write(cast(Kube, api), KubeEvent("ns", "train", "u", "Warning", reason, "Because."))
    assert len(api.names) == times
    await events.write(cast(Kube, api), KubeEvent("ns", "train", "u", "Warning", reason, "Otherwise."))
    assert len(api.names) == times + 1
