"""`chamber doctor`: what is wrong with a deployment or a cluster; what it looks with is imported when it runs."""

import asyncio
import json
import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chamber.cli import config
from chamber.cli.status import Exit

if TYPE_CHECKING:
    from agentlink.agent.check import CheckOptions
    from chamber.doctor.finding import Examination

A_PATH = click.Path(dir_okay=False, path_type=Path)
API_PATIENCE_SECONDS = 5.0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs: findings, checks made and left out.")
@click.option(
    "--cluster",
    is_flag=True,
    help="Look at a Kubernetes cluster instead, as its agent would find it. The options below are for that.",
)
@click.option(
    "--kubeconfig", type=A_PATH, help="How the cluster is reached; else this pod's service account."
)
@click.option("--context", help="Which context of the kubeconfig; else its current one.")
@click.option(
    "--node-selector",
    "node_selectors",
    multiple=True,
    envvar="CHAMBER_NODE_SELECTOR",
    metavar="KEY=VALUE",
    help="Chamber's nodes are these only; may be repeated.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    envvar="CHAMBER_WORKLOAD_NAMESPACE",
    help="Where workloads run, may be repeated; else namespaces bound to a team, and the agent's own.",
)
@click.option("--claims", is_flag=True, help="GPUs are to be given by Dynamic Resource Allocation.")
@click.option("--url", help="Address of the server; else CHAMBER_URL, else the one signed in to.")
@click.option("--token-file", type=A_PATH, help="The agent's token; without, the server is not looked at.")
@click.option(
    "--transport",
    type=click.Choice(["websocket", "long-poll"]),
    default="websocket",
    show_default=True,
    help="How the agent is to keep in touch.",
)
@click.pass_context
def doctor(
    click_context: click.Context,
    *,
    as_json: bool,
    cluster: bool,
    kubeconfig: Path | None,
    context: str | None,
    node_selectors: tuple[str, ...],
    namespaces: tuple[str, ...],
    claims: bool,
    url: str | None,
    token_file: Path | None,
    transport: Any,
) -> None:
    """Say what is wrong with a deployment, or with a cluster, and what to do about it.

    Run it where a server runs, with the same environment; with --cluster, where the cluster can be reached, as whom
    the agent is to run. Exit status 0: all is well. 1: something is not.
    """
    if cluster:
        from agentlink.agent.check import CheckOptions

        _refuse_bad_words(namespaces, node_selectors)
        asked = CheckOptions(
            workloads=namespaces,
            node_selector=",".join(node_selectors),
            uses_claims=claims,
            url=config.server(url) if token_file is not None else "",
            token=_token(token_file),
            transport=transport,
        )
        result = _examine_cluster(kubeconfig, context, asked)
    elif others := [option for option in _given(click_context) if option != "--json"]:
        raise click.UsageError(f"{others[0]} is for --cluster.")
    else:
        result = _examine()
    if as_json:
        click.echo(json.dumps(_as_json(result), indent=2, ensure_ascii=False))
    else:
        _tell(result)
    sys.exit(Exit.FAILED if result.findings else Exit.DONE)


def _given(context: click.Context) -> list[str]:
    """Return the options that were written on the command line."""
    written = click.core.ParameterSource.COMMANDLINE
    return [
        option.opts[0]
        for option in context.command.params
        if option.name and context.get_parameter_source(option.name) is written
    ]


def _refuse_bad_words(namespaces: tuple[str, ...], node_selectors: tuple[str, ...]) -> None:
    """Raise what `chamber agent` would say of them."""
    from agentlink.agent.kube.access import BadAccess
    from agentlink.agent.native import AgentOptions

    try:
        for namespace in namespaces or ("",):
            AgentOptions(namespace=namespace, node_selectors=node_selectors)
    except BadAccess as error:
        raise click.UsageError(str(error)) from error


def _token(path: Path | None) -> str:
    if path is None:
        return ""
    from agentlink.agent.command import BadInput, read_token

    try:
        return read_token(path)
    except BadInput as error:
        raise click.UsageError(str(error)) from error


def _examine_cluster(kubeconfig: Path | None, context: str | None, asked: "CheckOptions") -> "Examination":
    from agentlink.agent.check import examine
    from agentlink.agent.kube.access import BadAccess, load
    from agentlink.agent.kube.client import Kube
    from chamber.doctor.finding import DoctorFinding, Examination

    try:
        access = load(kubeconfig, context)
    except BadAccess as error:
        advice = "Name a kubeconfig with --kubeconfig, or correct it; nothing else can be looked at before."
        return Examination([("access", DoctorFinding(str(error), advice))])

    async def look() -> Examination:
        async with Kube(access, patience_seconds=API_PATIENCE_SECONDS) as kube:
            report = await examine(kube, asked)
        findings = [(name, DoctorFinding(found.problem, found.advice)) for name, found in report.problems]
        return Examination(findings, report.made, report.left_out)

    return asyncio.run(look())


def _examine() -> "Examination":
    from chamber.serving.start import CannotStart, load

    try:
        load()
    except CannotStart as error:
        from chamber.doctor.finding import DoctorFinding, Examination

        refused = DoctorFinding(str(error), "Correct the environment; nothing else can be looked at before.")
        return Examination([("settings", refused)])
    from chamber.doctor.examination import examine

    # What goes wrong while it looks is what it tells, in its own words.
    if logging.getLogger().level > logging.DEBUG:
        logging.disable(logging.CRITICAL)
    try:
        return examine()
    finally:
        logging.disable(logging.NOTSET)


def _tell(result: "Examination") -> None:
    for name, finding in result.findings:
        click.echo(f"{click.style(name, bold=True)}: {finding.problem}\n  {finding.advice}")
    for lacked in dict.fromkeys(result.lacks.get(name) for name in result.left_out):
        names = ", ".join(name for name in result.left_out if result.lacks.get(name) == lacked)
        click.echo(f"Not looked at{f', for want of {lacked}' if lacked else ''}: {names}.")
    if result.growth:
        from chamber.doctor.growth import lines

        click.echo("\n".join(["The database holds, and grows by a day:", *lines(result.growth)]))
    if not result.findings:
        click.echo(f"All is well: {len(result.made)} checks found nothing.")
    for name, fact in result.facts:
        click.echo(f"{name}: {fact.sentence}")


def _as_json(result: "Examination") -> dict[str, Any]:
    return {
        "well": not result.findings,
        "findings": [
            {"check": name, "problem": finding.problem, "advice": finding.advice}
            for name, finding in result.findings
        ],
        "facts": [{"check": name, "sentence": fact.sentence} for name, fact in result.facts],
        "made": result.made,
        "left_out": result.left_out,
        "lacks": result.lacks,
        "growth": [asdict(row) for row in result.growth],
    }
