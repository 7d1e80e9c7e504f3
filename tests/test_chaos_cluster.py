"""A cluster's record tells what ran, over any end of its process."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agentlink.protocol import AssignedPod, AssignedShare, DesiredAttempt, DeviceReport, NodeReport
from chaos.cluster import RecordedCluster

NODE = NodeReport(name="east-0", devices=(DeviceReport(index=0),))
POD = AssignedPod(index=0, node="east-0", devices=(AssignedShare(index=0, share_milli=1000),))


def assignment(*, command: str = "sleep 60") -> DesiredAttempt:
    """Return something to run on the one GPU."""
    return DesiredAttempt(
        workload=uuid4(), slug="x", attempt=uuid4(), number=1, pods=(POD,), let_go=True, image="x",
        command=(command,), grace_seconds=0,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def cluster(folder: Path) -> RecordedCluster:
    """Return the cluster, as it was left."""
    return RecordedCluster([NODE], name="east", state_file=folder / "state", record=folder / "east.jsonl")


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return what the record holds."""
    return [json.loads(line) for line in (folder / "east.jsonl").read_text().splitlines()]


async def test_a_creation_is_written_once(folder: Path) -> None:
    east, wanted = cluster(folder), assignment()
    await east.create(wanted, wanted.pods)
    await east.observe(-1)
    await east.observe(-1)
    (line,) = lines(folder)
    assert (line["what"], line["attempt"], line["devices"]) == ("created", str(wanted.attempt), [[0, 1000]])


async def test_an_end_is_written(folder: Path) -> None:
    east, wanted = cluster(folder), assignment()
    await east.create(wanted, wanted.pods)
    await east.observe(-1)
    await east.stop(wanted.attempt, None)
    await east.observe(-1)
    assert [line["what"] for line in lines(folder)] == ["created", "ended"]


async def test_what_nobody_was_told_of_has_not_happened(folder: Path) -> None:
    wanted = assignment()
    await cluster(folder).create(wanted, wanted.pods)  # the process ends before anybody looks
    again = cluster(folder)
    await again.create(wanted, wanted.pods)
    await again.observe(-1)
    assert [line["what"] for line in lines(folder)] == ["created"]


async def test_a_process_that_starts_again_goes_on(folder: Path) -> None:
    east, wanted = cluster(folder), assignment()
    await east.create(wanted, wanted.pods)
    await east.observe(-1)
    with (folder / "east.jsonl").open("a") as record:
        record.write('{"what": "cre')  # cut off in the middle of a line
    again = cluster(folder)
    await again.observe(-1)
    await again.stop(wanted.attempt, None)
    await again.observe(-1)
    assert [line["what"] for line in lines(folder)] == ["created", "ended"]


async def test_a_refusal_is_written_with_its_reason(folder: Path) -> None:
    east, first, second = cluster(folder), assignment(), assignment()
    await east.create(first, first.pods)
    await east.create(second, second.pods)
    await east.observe(-1)
    refused = lines(folder)[-1]
    assert (refused["what"], refused["attempt"]) == ("refused", str(second.attempt))
    assert "has less than" in refused["message"]
