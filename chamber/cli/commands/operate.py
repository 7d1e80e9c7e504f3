"""Commands of operators, and the scheduler on a file; what they run is imported when they run."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from chamber import logs
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
    "--plain", is_flag=True, help="Decide by the rules alone, without indexes: slower, the same result."
)
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
    plain: bool,
    form: str,
) -> None:
    """Run the scheduler on the organisation that FILE describes, without a database.

    FILE is YAML or JSON; - reads standard input.
    """
    from scheduling.simulation.command import SimulateOptions, run

    if until is None and interval is not None:
        raise click.UsageError("--interval is for --until.")
    if file == trace == "-":
        raise click.UsageError("Standard input is FILE or --trace, not both.")
    if until is not None and cycles is not None:
        raise click.UsageError("--until and --cycles exclude each other.")
    options = SimulateOptions(
        check=check,
        verify=verify,
        format=form,
        cycles=cycles or 1,
        until_ms=until,
        interval_ms=interval or 0,
        trace=trace,
        plain=plain,
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


A_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--url", help="Address of the server; else CHAMBER_URL, else the one signed in to.")
@click.option("--token-file", type=A_FILE, help="File that holds the agent's token.")
@click.option(
    "--in-cluster",
    is_flag=True,
    help="The cluster is the one that this pod runs in; so it is in a pod, where nothing else is said.",
)
@click.option("--kubeconfig", type=A_FILE, help="The cluster is the one that this kubeconfig leads to.")
@click.option("--context", help="With --kubeconfig: another than its current context.")
@click.option(
    "--cluster",
    envvar="CHAMBER_CLUSTER",
    default="",
    metavar="NAME",
    help="What its log calls the cluster, best its name at the server; else the cluster's own id.",
)
@click.option(
    "--namespace",
    envvar="CHAMBER_WORKLOAD_NAMESPACE",
    help="Where workloads run whose team has no namespace of its own; else the agent's own.",
)
@click.option(
    "--node-selector",
    "node_selectors",
    multiple=True,
    envvar="CHAMBER_NODE_SELECTOR",
    metavar="KEY=VALUE",
    help="Use these nodes only; may be repeated.",
)
@click.option(
    "--gpu-resource",
    "gpu_resources",
    multiple=True,
    envvar="CHAMBER_GPU_RESOURCES",
    metavar="PATTERN",
    help="What counts as GPUs of a device plugin, in place of nvidia.com/gpu, nvidia.com/gpu.shared, "
    "nvidia.com/mig-* and amd.com/gpu.",
)
@click.option(
    "--gpu-driver",
    "gpu_drivers",
    multiple=True,
    envvar="CHAMBER_GPU_DRIVERS",
    metavar="NAME",
    help="Whose published devices are GPUs, in place of NVIDIA's, AMD's and Intel's drivers.",
)
@click.option(
    "--device-class",
    "device_classes",
    multiple=True,
    envvar="CHAMBER_DEVICE_CLASSES",
    metavar="DRIVER=CLASS",
    help="The class to claim a driver's devices by, where it is not named like the driver.",
)
@click.option(
    "--partition-label",
    envvar="CHAMBER_PARTITION_LABEL",
    metavar="KEY",
    help="The label whose value is a node's partition; else chamber.internal/partition.",
)
@click.option(
    "--exporters",
    multiple=True,
    envvar="CHAMBER_EXPORTERS",
    metavar="KEY=VALUE",
    help="Labels of the pods that tell of GPU use, in place of the usual ones; may be repeated.",
)
@click.option(
    "--exporter-port",
    type=click.IntRange(1, 65535),
    envvar="CHAMBER_EXPORTER_PORT",
    help="The port at which they tell it; else 9400.",
)
@click.option(
    "--disruption-budgets",
    multiple=True,
    envvar="CHAMBER_DISRUPTION_BUDGETS",
    metavar="WORKLOADS",
    help="Which pods have a PodDisruptionBudget: reserved, gangs, single, adopted or none; else all but single.",
)
@click.option(
    "--do-not-disrupt",
    multiple=True,
    envvar="CHAMBER_DO_NOT_DISRUPT",
    metavar="WORKLOADS",
    help="Which pods autoscalers are told to leave alone: reserved, gangs, single or none; else reserved, gangs.",
)
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    envvar="CHAMBER_HEALTH_PORT",
    help="Answer probes here, /livez and /readyz, and Prometheus: /metrics.",
)
@click.option(
    "--simulate",
    type=A_FILE,
    help="Simulate the cluster whose nodes this file lists (JSON, or CSV: sn, cpu_milli, memory_mib, gpu, model).",
)
@click.option(
    "--state-file",
    type=A_FILE,
    help="With --simulate: where the cluster keeps its pods, so that they outlive the agent.",
)
@click.option(
    "--transport",
    type=click.Choice(["websocket", "long-poll"]),
    default="websocket",
    show_default=True,
    help="How it keeps in touch; long-poll passes where a proxy lets no WebSocket through.",
)
@click.option(
    "--log-format",
    type=click.Choice(logs.FORMS),
    envvar="CHAMBER_LOG_FORMAT",
    default="line",
    show_default=True,
    help="How its log is written: lines for people, or JSON for programs.",
)
@click.option(
    "--log-level",
    type=click.Choice(logs.LEVELS),
    envvar="CHAMBER_LOG_LEVEL",
    default="INFO",
    show_default=True,
    help="The least level of what is logged.",
)
@click.option(
    "--release",
    is_flag=True,
    help="Let go of all that Chamber has in the cluster, and end: before the agent is removed for good. "
    "Refused, with status 3, while workloads run. With --token-file the server is told.",
)
@click.option("--stop-workloads", is_flag=True, help="With --release: stop workloads that run.")
@click.option(
    "--timeout",
    type=click.IntRange(1, 86400),
    metavar="SECONDS",
    help="With --release: how long it may take; else 270.",
)
def agent(
    url: str | None,
    token_file: Path | None,
    *,
    in_cluster: bool,
    kubeconfig: Path | None,
    simulate: Path | None,
    state_file: Path | None,
    transport: Any,
    cluster: str,
    log_format: str,
    log_level: str,
    release: bool,
    stop_workloads: bool,
    timeout: int | None,
    **options: Any,
) -> None:
    """Run the agent of a cluster until Ctrl-C: it connects to the server and does what that asks for.

    The cluster is named by one of --in-cluster, --kubeconfig and --simulate.
    """
    from agentlink.agent import command

    named = [in_cluster, kubeconfig is not None, simulate is not None]
    if sum(named) > 1 or (sum(named) == 0 and "KUBERNETES_SERVICE_HOST" not in os.environ):
        raise click.UsageError(
            "Name the cluster by one of --in-cluster, --kubeconfig FILE and --simulate FILE."
        )
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if simulate is None and state_file is not None:
        raise click.UsageError("--state-file is for --simulate.")
    if simulate is not None and (real := _given_words(given)):
        raise click.UsageError(f"{real[0]} is for a real cluster, not for --simulate.")
    if kubeconfig is None and "context" in given:
        raise click.UsageError("--context is for --kubeconfig.")
    common: dict[str, Any] = {"cluster": cluster, "log": command.LogForm(log_format, log_level)}
    role = os.environ.get("CHAMBER_WORKLOADS_ROLE")
    given |= {"role": role} if role and simulate is None else {}
    if release:
        if simulate is not None:
            raise click.UsageError("--release is for a real cluster, not for --simulate.")
        if token_file is not None:
            common |= {"url": config.server(url), "token_file": token_file, "transport": transport}
        sys.exit(_release(common | given, kubeconfig, stop_workloads=stop_workloads, timeout=timeout))
    if stop_workloads or timeout is not None:
        raise click.UsageError("--stop-workloads and --timeout are for --release.")
    if token_file is None:
        raise click.UsageError("--token-file is missing.")
    common |= {"url": config.server(url), "token_file": token_file, "transport": transport}
    if simulate is not None:
        status = command.main(**common, simulate=simulate, state_file=state_file)
    else:
        status = command.main_native(**common, kubeconfig=kubeconfig, **given)
    sys.exit(status)


def _release(
    given: dict[str, Any], kubeconfig: Path | None, *, stop_workloads: bool, timeout: int | None
) -> int:
    """Let go of the cluster; return the exit status."""
    from agentlink.agent import command

    unused = ("exporters", "exporter_port", "health_port")
    options = {name: value for name, value in given.items() if name not in unused}
    options |= {} if timeout is None else {"timeout_seconds": timeout}
    return command.main_release(kubeconfig=kubeconfig, stop_workloads=stop_workloads, **options)


def _given_words(names: Iterable[str]) -> list[str]:
    """Return how those of these options are written that stand on the command line, and not in the environment."""
    context = click.get_current_context()
    said = [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    return [option.opts[0] for option in context.command.params if option.name in said]
