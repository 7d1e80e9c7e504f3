"""`chamber submit`: one workload by flags, or several from a file, all or none."""

import uuid
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import click

from chamber.cli import manifests
from chamber.cli.client import Client, Json, connect
from chamber.cli.columns import WORKLOADS
from chamber.cli.commands.arrays import ARRAYS
from chamber.cli.commands.follow import wait_for, wait_for_arrays
from chamber.cli.output import Column, OutputFormat, Row, output_option, show
from chamber.cli.status import Exit, Failure

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = [
    click.option("-f", "--file", help="YAML or JSON with one workload or several; - reads standard input."),
    click.option("--name", help="Name; else the image's."),
    click.option("--team", help="Team, by its slug."),
    click.option(
        "--environment",
        "runs_in",
        metavar="NAME[@VERSION]",
        help="Environment to run in; what else is said is taken in place of what it has.",
    ),
    click.option("--image", help="Container image; else that of the environment."),
    click.option("--working-dir", metavar="PATH", help="Folder to run in; else the image's own."),
    click.option("--gpus", metavar="NUMBER", help="GPUs of each pod: 0.25, 0.5, 0.75 or a whole number."),
    click.option("--gpu-memory-mib", type=int, help="Memory of one GPU for each pod, instead of --gpus."),
    click.option("--pods", type=int, help="How many equal pods."),
    click.option("--min-pods", type=int, help="It starts with at least these; else with all together."),
    click.option("--priority", help="0 to 99 is elastic, from 100 reserved; or the name of a tier."),
    click.option(
        "--class", "job_class", help="Job class, such as training; else the organisation's default."
    ),
    click.option(
        "--pool", "pools", multiple=True, help="Acceptable pool, best first; may come several times."
    ),
    click.option(
        "--gpu-type", "gpu_types", multiple=True, help="Acceptable GPU type; may come several times."
    ),
    click.option("--partition", help="Only nodes of this partition."),
    click.option(
        "--node-selector",
        multiple=True,
        metavar="KEY=VALUE",
        help="Only nodes with this label; may come several times.",
    ),
    click.option(
        "--toleration",
        "tolerations",
        multiple=True,
        metavar="KEY[=VALUE][:EFFECT]",
        help="Taint that it tolerates; may come several times.",
    ),
    click.option("--topology-required", metavar="LEVEL", help="All pods in one of these, such as rack."),
    click.option("--topology-preferred", metavar="LEVEL", help="In one of these where that can be."),
    click.option("--cpu", help="CPU cores of each pod."),
    click.option("--memory-mib", type=int, help="Memory of each pod."),
    click.option(
        "--shm-mib", type=int, help="Shared memory of each pod, a part of its memory; else half of it."
    ),
    click.option("--scratch-mib", type=int, help="Disk of each pod at /scratch while it runs."),
    click.option(
        "--time-limit", metavar="DURATION", help="Longest run, such as 90s, 30m, 4h, 2d; none: no limit."
    ),
    click.option("--grace", metavar="DURATION", help="Time to end after it is asked to, such as 30s, 5m."),
    click.option("--on-preemption", type=click.Choice(["requeue", "stop"]), help="What then becomes of it."),
    click.option("--max-requeues", type=int, help="How often it returns to the queue after a preemption."),
    click.option("--max-retries", type=int, help="How often to try again after a failure."),
    click.option(
        "--start-after",
        metavar="TIME",
        help="Not before this: a time from now such as 2h, or 2026-12-01T20:00Z.",
    ),
    click.option(
        "--deadline", metavar="TIME", help="It ends where it has not started by then; written likewise."
    ),
    click.option(
        "--on-deadline",
        type=click.Choice(["fail", "cancel"]),
        help="As what it then ends: Failed (the default) or Cancelled.",
    ),
    click.option(
        "--fail-if-impossible",
        is_flag=True,
        default=None,
        help="End as Failed where it can never start; else it waits.",
    ),
    click.option(
        "--read-notes",
        is_flag=True,
        default=None,
        help="Read lines of its output that tell of checkpoints and progress.",
    ),
    click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="Environment variable."),
    click.option(
        "--mount",
        "mounts",
        multiple=True,
        metavar="SOURCE:PATH[:rw]",
        help="Data source, and where pods have it; to write with :rw. May come several times.",
    ),
    click.option(
        "--credential",
        "credentials",
        multiple=True,
        metavar="NAME",
        help="Credential that its pods get: your own as NAME, a team's as TEAM/NAME; may come several times.",
    ),
    click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of its Job and pods."),
    click.option(
        "--annotation",
        "annotations",
        multiple=True,
        metavar="KEY=VALUE",
        help="Annotation of its Job and pods.",
    ),
    click.option(
        "--array",
        multiple=True,
        metavar="MEMBERS",
        help="Many workloads as one: 0-199; lr=0.1,0.01, once for each parameter of a grid; or @FILE, a CSV.",
    ),
    click.option("--max-parallel", type=int, help="Members of the array that have GPUs at once, at most."),
    click.option(
        "--depends-on",
        multiple=True,
        metavar="[KIND:]NAME",
        help="Start only after this workload or array has completed; KIND afterany or afternotok: after another end.",
    ),
    click.option("--hold", is_flag=True, default=None, help="Keep it from starting until `chamber release`."),
]


def _why(row: Row) -> str:
    reason = row["reason"]
    return " ".join(filter(None, (reason["message"], reason["next_step"]))) if reason else ""


PREVIEWS = [
    Column("Workload", lambda row: row["name"]),
    Column("Outcome", lambda row: row["outcome"]),
    Column("What would happen", lambda row: row["message"]),
    Column("Why", _why),
]


PAIRS = {
    "environment": "--env",
    "labels": "--label",
    "annotations": "--annotation",
    "node_selector": "--node-selector",
}
"""Flags that come several times, each with a name and a value."""


LONG_NAMES = {"time_limit": "time_limit_seconds", "grace": "grace_seconds"}
"""What else a file may call what a flag says."""


def workload_options(command: F) -> F:
    """Give a command the flags that describe a workload."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.command()
@workload_options
@click.option(
    "--idempotency-key", help="Name of this submission: repeated with it, nothing is submitted twice."
)
@click.option("--dry-run", is_flag=True, help="Check it, say what would become of it, and submit nothing.")
@click.option("--wait", is_flag=True, help="Wait until all have ended; the exit status tells how.")
@output_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def submit(
    file: str | None,
    idempotency_key: str | None,
    dry_run: bool,
    wait: bool,
    form: OutputFormat,
    **flags: Any,
) -> None:
    """Submit one workload by flags, or several from a file, and print their names.

    Everything after -- is the command to run in each pod:

    \b
        chamber submit --team nlp --image python:3.12 --gpus 1 -- python train.py

    With -f, flags change every workload of the file. Several are taken all or none. With --dry-run nothing is
    submitted: each is checked and answered as if it alone were.
    """
    if dry_run and (wait or idempotency_key):
        raise click.UsageError("--dry-run submits nothing: leave --wait and --idempotency-key out.")
    asked = asked_for(file, flags)
    if dry_run:
        with asked.told_at_least(), connect() as client:
            show_previews(client, asked, form)
        return
    with asked.told_at_least(), connect() as client:
        made, arrays = send(client, asked, idempotency_key or str(uuid.uuid4()))
        in_form = OutputFormat.NAME if form is OutputFormat.TABLE else form
        if made or not arrays:
            show(made, in_form, WORKLOADS)
        if arrays:
            show(arrays, in_form, ARRAYS)
        if wait:
            wait_for(client, [workload["slug"] for workload in made])
            wait_for_arrays(client, [array["slug"] for array in arrays])


def show_previews(client: Client, asked: manifests.File, form: OutputFormat) -> None:
    """Say what would become of each workload, by the scheduler's answer; nothing is submitted."""
    if asked.problems:
        raise _mistakes(client, asked)
    workloads = asked.documents
    try:
        answer = client.post("preview/", workloads[0] if len(workloads) == 1 else {"workloads": workloads})
    except Failure as failure:
        raise asked.refused(failure) from failure
    show(answer["workloads"], form, PREVIEWS)
    if answer["others"]:
        click.echo(f"{answer['others']:,} more are right; what becomes of these is not worked out.", err=True)


def asked_for(file: str | None, flags: dict[str, Any]) -> manifests.File:
    """Return the workloads that a file and flags describe, in the words of the API; without the lines of what the
    flags say.
    """
    given = _given(flags)
    if not file:
        return manifests.File("", [_by_flags(given)])
    found = manifests.read(file)
    found.documents = [_with(document, given) for document in found.documents]
    for values in (found.lines, found.problems):
        for place in [place for place in values if place.rpartition(".")[2] in given]:
            del values[place]
    return found


def send(client: Client, asked: manifests.File, key: str) -> tuple[list[Json], list[Json]]:
    """Submit, and return the workloads and the arrays that were made.

    Where it may have arrived, the failure says how to be sure. Of a file with mistakes the rest is only checked, so
    that all is told at once.
    """
    if asked.problems:
        raise _mistakes(client, asked)
    workloads = asked.documents
    body = workloads[0] if len(workloads) == 1 else {"workloads": workloads}
    try:
        answer = client.post("workloads/", body, key=key)
    except Failure as failure:
        if failure.exit_code in {Exit.FAILED, Exit.TIMEOUT}:
            raise failure.with_hint(
                f"To try again and submit only once: --idempotency-key {key}"
            ) from failure
        raise asked.refused(failure) from failure
    made: list[Json] = answer.get("workloads", [answer])
    arrays: list[Json] = answer.get("arrays", [])
    for workload in [*made, *arrays]:
        for text in workload.get("warnings", ()):  # an older server tells none
            click.echo(f"Warning: {workload['slug']}: {text}", err=True)
    return made, arrays


def _mistakes(client: Client, asked: manifests.File) -> Failure:
    """Return what is wrong with a file, as found here and by the server."""
    try:
        client.post("workloads/", {"dry_run": True, "workloads": asked.documents})
    except Failure as failure:
        # An older server knows no dry run, and takes all of it for one workload.
        if "dry_run" not in failure.fields:
            return asked.refused(failure)
    return asked.failure(asked.problems)


def _given(flags: dict[str, Any]) -> Json:
    """Return what the flags say, in the words of the API."""
    asked = {name: list(value) if isinstance(value, tuple) else value for name, value in flags.items()}
    asked = {name: value for name, value in asked.items() if value not in (None, [])}
    for name, flag in PAIRS.items():
        if name in asked:
            asked[name] = dict(_pair(text, flag) for text in asked[name])
    if "array" in asked:
        asked["array"] = _array(asked["array"])
    return asked


def _array(given: list[str]) -> object:
    """Return the members that the flags say: a grid by several, the CSV of a file, or what one of them says."""
    if len(given) > 1 or not given[0].startswith("@"):
        if len(given) > 1 and not all("=" in text for text in given):
            raise click.UsageError(
                "--array may come several times for a grid only, each as NAME=VALUE,VALUE."
            )
        return "\n".join(given)
    path = Path(given[0][1:])
    try:
        return {"csv": path.read_text("utf-8-sig")}
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--array: {path} cannot be read: {error}.") from error


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"{flag} is {text!r}; it must be NAME=VALUE.")
    return name, value


def _with(document: Json, given: Json) -> Json:
    """Return a file's workload as the flags change it."""
    replaced = {long for short, long in LONG_NAMES.items() if short in given}
    if isinstance(document.get("environment"), str):  # its name: flags say variables under the same word
        document = {"runs_in" if key == "environment" else key: value for key, value in document.items()}
    if "environment" in given:
        replaced.add("variables")
    return {**{name: value for name, value in document.items() if name not in replaced}, **given}


def _by_flags(given: Json) -> Json:
    if "team" not in given:
        raise click.UsageError("Give --team, or a file with -f.")
    if "image" not in given and "runs_in" not in given:
        raise click.UsageError("Give --image or --environment, or a file with -f.")
    named = given.get("image") or given.get("runs_in", "")
    image = PurePosixPath(named.partition("@")[0]).name.partition(":")[0]
    return {"name": image or "workload", **given}
