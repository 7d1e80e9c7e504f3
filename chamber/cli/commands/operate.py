"""Commands of operators, and the scheduler on a file; what they run is imported when they run."""

import sys
from pathlib import Path
from typing import Any

import click

from chamber.cli import config
from chamber.cli.durations import DURATION_MS


@click.command()
@click.argument("file")
@click.option(
    "--check", is_flag=True, help="Compare with what the scenario expects; exit 1 where it differs."
)
@click.option(
    "--verify",
    is_flag=True,
    help="Let an independent checker look for broken rules; exit 1 where it finds one.",
)
@click.option(
    "--cycles",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Run N cycles in a row, each plan carried out at once.",
)
@click.option(
    "--until", type=DURATION_MS, metavar="24h", help="Run the clock for so long, and add a summary."
)
@click.option("--interval", type=DURATION_MS, metavar="30s", help="With --until: cycles at most that often.")
@click.option("--trace", metavar="FILE.csv[.gz]", help="More workloads, from a CSV.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to show the plan.",
)
def simulate(
    file: str,
    *,
    check: bool,
    verify: bool,
    cycles: int | None,
    until: int | None,
    interval: int | None,
    trace: str | None,
    form: str,
) -> None:
    """Run the scheduler on the organisation that FILE describes, without a database.

    FILE is YAML or JSON; - reads standard input.
    """
    from scheduling.simulation.command import Options, run

    if until is None and interval is not None:
        raise click.UsageError("--interval is for --until.")
    if file == trace == "-":
        raise click.UsageError("Standard input is FILE or --trace, not both.")
    if until is not None and cycles is not None:
        raise click.UsageError("--until and --cycles exclude each other.")
    options = Options(
        check=check,
        verify=verify,
        format=form,
        cycles=cycles or 1,
        until_ms=until,
        interval_ms=interval or 0,
        trace=trace,
    )
    sys.exit(run(file, options, out=sys.stdout, err=sys.stderr))


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Port to listen on."
)
@click.option(
    "--data", type=click.Path(file_okay=False), help="Folder of its data; else CHAMBER_DATA, else .demo."
)
@click.option("--reset", is_flag=True, help="Throw the data away and start afresh.")
@click.option("--no-stream", is_flag=True, help="Submit no example workloads.")
def demo(host: str, port: int, data: str | None, reset: bool, no_stream: bool) -> None:
    """Run Chamber with an example organisation on this machine, until Ctrl-C."""
    from chamber.demo.command import run

    sys.exit(run(host=host, port=port, reset=reset, data=data, with_stream=not no_stream))


@click.command()
@click.option("--url", help="Address of the server; else CHAMBER_URL, else the one signed in to.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File that holds the agent's token.",
)
@click.option(
    "--simulate",
    "nodes",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Simulate the cluster whose nodes this file lists (JSON, or CSV: sn, cpu_milli, memory_mib, gpu, model).",
)
@click.option(
    "--state-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the simulated cluster keeps its pods, so that they outlive the agent.",
)
@click.option(
    "--transport",
    type=click.Choice(["websocket", "long-poll"]),
    default="websocket",
    show_default=True,
    help="How it keeps in touch; long-poll passes where a proxy lets no WebSocket through.",
)
def agent(url: str | None, token_file: Path, nodes: Path, state_file: Path | None, transport: Any) -> None:
    """Run the agent of a cluster until Ctrl-C: it connects to the server and does what that asks for."""
    from agentlink.agent.command import main

    address = config.server(url)
    sys.exit(
        main(url=address, token_file=token_file, simulate=nodes, state_file=state_file, transport=transport)
    )
