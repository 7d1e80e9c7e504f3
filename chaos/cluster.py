"""A simulated cluster that keeps a record of its own: each pod's creation and end, and each refusal, as lines of JSON.

    python -m chaos.cluster --url URL --token-file FILE --nodes FILE --state FILE --record FILE [--transport long-poll]

It runs the agent that `chamber agent` runs. A line is written when somebody looks, before anything is told of it, and
after the state file: what is lost with the process before that has not happened. Times are the machine's monotonic
clock, which is one for all processes and which nobody moves.
"""

import argparse
import asyncio
import json
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from agentlink.agent.backends.base import Observation
from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.command import read_nodes
from agentlink.agent.runner import run_agent
from agentlink.protocol import LIVING, NodeReport, ReportedPhase

Line = dict[str, Any]
Pod = tuple[UUID, int]


class RecordedCluster(SimulatedCluster):
    """A simulated cluster whose record tells, in the order of happening, what really ran."""

    def __init__(self, nodes: Iterable[NodeReport], *, name: str, state_file: Path, record: Path) -> None:
        super().__init__(nodes, name=name, state_file=state_file)
        self._alive: dict[Pod, Line] = {}
        self._told: set[Pod] = set()
        self._refused: set[UUID] = set()
        for line in _complete_lines(record):
            self._note(line)
        self._record = record

    async def observe(self, since: int) -> tuple[int, Sequence[Observation]]:
        """Return what changed, once it is in the record: what ended before what began."""
        version, observations = await super().observe(since)
        lines = [line for seen in observations for line in self._ends(seen)]
        lines += [line for seen in observations for line in self._beginnings(seen)]
        for line in lines:
            self._note(line)
        if lines:
            with self._record.open("a") as record:
                record.writelines(json.dumps(line) + "\n" for line in lines)
        return version, observations

    def _ends(self, seen: Observation) -> list[Line]:
        living = {pod.index for pod in seen.pods if pod.state in LIVING}
        over = [
            line
            for (attempt, pod), line in self._alive.items()
            if attempt == seen.attempt and pod not in living
        ]
        return [{**line, "what": "ended", "at": time.monotonic()} for line in over]

    def _beginnings(self, seen: Observation) -> list[Line]:
        """Return the pods that are new; two lines for one that came and went between two looks."""
        if seen.created_at is None:
            refused = seen.phase is ReportedPhase.FAILED and seen.attempt not in self._refused
            return [self._line("refused", seen, 0)] if refused else []
        found: list[Line] = []
        for pod in seen.pods:
            key = seen.attempt, pod.index
            if pod.state in LIVING and key not in self._alive:
                found.append(self._line("created", seen, pod.index))
            elif pod.state not in LIVING and key not in self._told:
                found += [self._line(what, seen, pod.index) for what in ("created", "ended")]
        return found

    def _line(self, what: str, seen: Observation, index: int) -> Line:
        pod = self._jobs[seen.attempt].pods.get(index)
        return {
            "what": what,
            "at": time.monotonic(),
            "workload": str(seen.workload),
            "attempt": str(seen.attempt),
            "number": seen.number,
            "pod": index,
            "node": pod.node if pod is not None else "",
            "devices": [[device.index, device.share_milli] for device in pod.devices]
            if pod is not None
            else [],
            "message": seen.message,
        }

    def _note(self, line: Line) -> None:
        """Remember a line of the record."""
        key = UUID(line["attempt"]), line["pod"]
        if line["what"] == "created":
            self._alive[key] = line
            self._told.add(key)
        elif line["what"] == "ended":
            self._alive.pop(key, None)
        else:
            self._refused.add(key[0])


def _complete_lines(record: Path) -> list[Line]:
    """Return the record's lines; one that was cut off by an end of the process is taken out of the file."""
    text = record.read_text() if record.exists() else ""
    complete = text[: text.rfind("\n") + 1]
    if complete != text:
        record.write_text(complete)
    return [json.loads(line) for line in complete.splitlines()]


def main() -> int:
    """Run the agent with its cluster until it is interrupted; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m chaos.cluster")
    parser.add_argument("--url", required=True)
    for name in ("token-file", "nodes", "state", "record"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--transport", choices=("websocket", "long-poll"), default="websocket")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    nodes, name = read_nodes(given.nodes), given.nodes.stem
    cluster = RecordedCluster(nodes, name=name, state_file=given.state, record=given.record)
    token = given.token_file.read_text().strip()
    with suppress(KeyboardInterrupt):
        asyncio.run(run_agent(given.url, token, cluster, transport=given.transport, memory=cluster.memory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
