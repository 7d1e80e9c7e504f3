"""What `chamber agent` runs."""

import asyncio
import csv
import json
import logging
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.runner import Transport, run_agent
from agentlink.protocol import DeviceReport, NodeReport

_NODES = TypeAdapter(list[NodeReport])
COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


class BadInput(Exception):  # noqa: N818 - an answer to the user
    """A file that cannot be used, as a sentence."""


def main(
    *,
    url: str,
    token_file: Path,
    simulate: Path,
    state_file: Path | None = None,
    transport: Transport = "websocket",
) -> int:
    """Run an agent with a simulated cluster until it is interrupted; return the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        token = _read(token_file).strip()
        nodes = read_nodes(simulate)
    except BadInput as error:
        print(error, file=sys.stderr)  # noqa: T201 - this is the command line
        return 2
    cluster = SimulatedCluster(nodes, name=simulate.stem, state_file=state_file)
    with suppress(KeyboardInterrupt):
        asyncio.run(run_agent(url, token, cluster, transport=transport))
    return 0


def read_nodes(path: Path) -> list[NodeReport]:
    """Return the nodes of a file: JSON (a list of nodes as the link carries them) or CSV; raise `BadInput`."""
    text = _read(path)
    try:
        nodes = nodes_from_csv(text.splitlines()) if path.suffix == ".csv" else _NODES.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{path}: {place}: {first['msg']}.") from error
    except (ValueError, KeyError, json.JSONDecodeError) as error:
        raise BadInput(f"{path}: {error}.") from error
    names = [node.name for node in nodes]
    twice = (
        next((name for name in names if names.count(name) > 1), None)
        if len(set(names)) < len(names)
        else None
    )
    if twice is not None:
        raise BadInput(f"{path}: the node {twice!r} comes twice.")
    return nodes


def nodes_from_csv(lines: Iterable[str]) -> list[NodeReport]:
    """Return the nodes of a table with the columns sn, cpu_milli, memory_mib, gpu (their number) and model."""
    rows = csv.DictReader(lines)
    missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
    if missing:
        raise ValueError(f"the column {missing[0]!r} is missing; needed are {', '.join(COLUMNS)}")
    return [
        NodeReport(
            name=row["sn"],
            cpu_milli=int(row["cpu_milli"]),
            memory_mib=int(row["memory_mib"]),
            labels={"gpu-model": row["model"]},
            devices=tuple(
                DeviceReport(index=index, gpu_type=row["model"]) for index in range(int(row["gpu"]))
            ),
        )
        for row in rows
    ]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}.") from error
