"""What `chamber agent` runs."""

import asyncio
import csv
import json
import logging
import logging.config
import signal
import sys
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from agentlink.agent import authority
from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.link import LinkLost
from agentlink.agent.runner import Transport, run_agent
from agentlink.protocol import DeviceReport, NodeReport
from chamber import invalid, logs

logger = logging.getLogger(__name__)

_NODES = TypeAdapter(list[NodeReport])
COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


class LogForm(NamedTuple):
    """How the log is written: one of `logs.FORMS`, from a level of `logs.LEVELS` on."""

    form: str
    level: str


LOG_FORM = LogForm("line", "INFO")


class BadInput(Exception):  # noqa: N818 - an answer to the user
    """A file that cannot be used, as a sentence."""


def main(
    *,
    url: str,
    token_file: Path,
    simulate: Path,
    state_file: Path | None = None,
    transport: Transport = "websocket",
    cluster: str = "",
    log: LogForm = LOG_FORM,
) -> int:
    """Run an agent with a simulated cluster until it is interrupted or told to stop; return the exit status.

    The token's file is read anew for each connection: a token may be rotated under a running agent.
    """
    try:
        read_token(token_file)
        authority.context()
        nodes = read_nodes(simulate)
    except (BadInput, authority.BadAuthority) as error:
        return _refuse(error)
    simulated = SimulatedCluster(nodes, name=simulate.stem, state_file=state_file)
    with logs.bind(cluster=cluster or simulate.stem):
        token = partial(_token, token_file)
        _run(run_agent(url, token, simulated, transport=transport, memory=simulated.memory), log)
    simulated.save()
    return 0


def main_native(
    *,
    url: str,
    token_file: Path,
    kubeconfig: Path | None = None,
    context: str | None = None,
    health_port: int | None = None,
    transport: Transport = "websocket",
    log: LogForm = LOG_FORM,
    **options: Any,
) -> int:
    """Run an agent of a Kubernetes cluster (`kubeconfig` None: the one this pod runs in), as `main` does.

    `options` are those of `agentlink.agent.native.AgentOptions`.
    """
    from agentlink.agent.kube.access import BadAccess, load
    from agentlink.agent.native import AgentOptions, run_native

    try:
        read_token(token_file)
        authority.context()
        chosen = AgentOptions(**options)
        access = load(kubeconfig, context)
    except (BadInput, authority.BadAuthority, BadAccess) as error:
        return _refuse(error)
    token = partial(_token, token_file)
    work = run_native(access, chosen, url=url, token=token, transport=transport, health_port=health_port)
    with logs.bind(cluster=chosen.cluster):
        _run(work, log)
    return 0


def main_release(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    stop_workloads: bool = False,
    timeout_seconds: float = 270.0,
    url: str = "",
    token_file: Path | None = None,
    transport: Transport = "websocket",
    log: LogForm = LOG_FORM,
    **options: Any,
) -> int:
    """Let go of a Kubernetes cluster before its agent is removed, and tell the server at `url`; return the exit status,
    3 where that is refused. Without a `token_file` the server is not told.
    """
    from agentlink.agent.farewell import ServerAddress
    from agentlink.agent.kube.access import BadAccess, load
    from agentlink.agent.kube.errors import KubeError
    from agentlink.agent.native import AgentOptions
    from agentlink.agent.release import NotReleased, release

    logging.config.dictConfig(logs.configuration(*log, server=False))
    try:
        chosen, access = AgentOptions(**options), load(kubeconfig, context)
        server = None if token_file is None else ServerAddress(url, partial(_token, token_file), transport)
        work = release(
            access,
            chosen,
            stop_workloads=stop_workloads,
            timeout_seconds=timeout_seconds,
            server=server,
            in_cluster=kubeconfig is None,
        )
        with logs.bind(cluster=chosen.cluster):
            left = asyncio.run(work)
    except BadAccess as error:
        return _refuse(error)
    except (NotReleased, KubeError) as error:
        _refuse(error)
        return 3 if isinstance(error, NotReleased) else 1
    jobs = len(left.running) + len(left.ended)
    print(f"Let go of {jobs} {'Job' if jobs == 1 else 'Jobs'}; the agent may be removed.")  # noqa: T201
    if left.untold:
        step = (
            "Release them by their own agent, or end them, before you declare what ran here lost"
            if left.active
            else "Declare that lost on the cluster's page, which is possible once it has been silent for a while"
        )
        print(  # noqa: T201
            f"Chamber was not told: {left.untold}. It goes on showing what ran here as running. {step}."
        )
    else:
        print(f"Told Chamber at {url}: what ran here is back in the queue.")  # noqa: T201
    if left.unmarked:
        named = ", ".join(left.unmarked)
        print(f"Left alone, as they bear the finalizer without this agent's mark: {named}.")  # noqa: T201
    return 0


def _refuse(error: Exception) -> int:
    print(error, file=sys.stderr)  # noqa: T201 - this is the command line
    return 2


def _run(work: Coroutine[Any, Any, None], log: LogForm) -> None:
    """Run until SIGTERM or SIGINT; then close the link. The cluster's pods go on."""

    async def run() -> None:
        agent = asyncio.create_task(work)
        for sign in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(sign, agent.cancel)
        with suppress(asyncio.CancelledError):
            await agent

    logging.config.dictConfig(logs.configuration(*log, server=False))
    asyncio.run(run())
    logger.info("The agent has stopped; the pods of its cluster go on.")


def _token(path: Path) -> str:
    try:
        return read_token(path)
    except BadInput as error:
        raise LinkLost(str(error)) from error


def read_token(path: Path) -> str:
    """Return the token that the file holds; raise `BadInput`."""
    token = _read(path).strip()
    if not token or not token.isascii() or any(character.isspace() for character in token):
        raise BadInput(
            f"{path} holds no token: expected is one word, as it was shown when the token was made."
        )
    return token


def read_nodes(path: Path) -> list[NodeReport]:
    """Return the nodes of a file: JSON (a list of nodes as the link carries them) or CSV; raise `BadInput`.

    A device whose type names a MIG profile (`mig-1g.10gb`) or ends in `-SHARED` is a slice, whether or not it says so.
    """
    text = _read(path)
    try:
        nodes = nodes_from_csv(text.splitlines()) if path.suffix == ".csv" else _NODES.validate_json(text)
    except ValidationError as error:
        raise BadInput(f"{path}: {invalid.together(list(invalid.sentences(error).values()))}") from error
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
    return [_cut(node) for node in nodes]


def _cut(node: NodeReport) -> NodeReport:
    """Return the node with its devices that are named as slices told as such."""
    slices = node.slices_by_name()
    devices = tuple(slices.get(device.index, device) for device in node.devices)
    return node.model_copy(update={"devices": devices}) if slices else node


def nodes_from_csv(lines: Iterable[str]) -> list[NodeReport]:
    """Return the nodes of a table with the columns sn, cpu_milli, memory_mib, gpu (their number) and model."""
    rows = csv.DictReader(lines)
    missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
    if missing:
        raise ValueError(f"the column {missing[0]!r} is missing; needed are {', '.join(COLUMNS)}")
    return [
        NodeReport(
            name=row["sn"],
            cpu_milli=_whole(row, "cpu_milli", line),
            memory_mib=_whole(row, "memory_mib", line),
            labels={"gpu-model": row["model"]},
            devices=tuple(
                DeviceReport(index=index, gpu_type=row["model"]) for index in range(_whole(row, "gpu", line))
            ),
        )
        for line, row in enumerate(rows, start=2)
    ]


def _whole(row: Mapping[str, str | None], column: str, line: int) -> int:
    text = row[column] or ""
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 16):
        raise ValueError(f"line {line}: {column} is {text[:80]!r}; it must be a whole number")
    return int(text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}.") from error
