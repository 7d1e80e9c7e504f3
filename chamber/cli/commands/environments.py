"""`chamber environments list, show, create, update, archive, restore, delete`: images with their settings, of teams."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from chamber.cli.client import Json, connect, segment
from chamber.cli.output import Column, OutputFormat, ago, output_option, show, show_one
from chamber.cli.status import Exit, Failure

F = TypeVar("F", bound=Callable[..., Any])
MOST_BYTES = 256 * 1024

COLUMNS = [
    Column("Name", lambda row: row["reference"]),
    Column("Version", lambda row: row["newest"]["number"], number=True),
    Column("Image", lambda row: row["newest"]["image"]),
    Column("Open workloads", lambda row: row["open_workloads"], number=True),
    Column("Archived", lambda row: "yes" if row["archived"] else None),
    Column("Since", lambda row: ago(row["newest"]["created_at"])),
    Column("Note", lambda row: row["newest"]["note"], wide=True),
]
ONE = [
    *COLUMNS,
    Column("Command", lambda row: row["newest"]["command"]),
    Column("Variables", lambda row: [f"{key}={text}" for key, text in row["newest"]["variables"].items()]),
    Column("Data", lambda row: row["newest"].get("mounts")),
    Column("Working folder", lambda row: row["newest"]["working_dir"]),
    Column("Shared memory", lambda row: _mib(row["newest"]["shm_mib"])),
    Column("Scratch", lambda row: _mib(row["newest"]["scratch_mib"])),
    Column("GPU types", lambda row: row["newest"]["gpu_types"]),
    Column(
        "Node labels", lambda row: [f"{key}={text}" for key, text in row["newest"]["node_selector"].items()]
    ),
    Column("Pull credential", lambda row: row["newest"]["pull_credential"]),
    Column("Versions", lambda row: [f"{each['number']}: {each['image']}" for each in row["versions"]]),
]

OPTIONS = [
    click.option("-f", "--file", help="YAML or JSON with what the version has; - reads standard input."),
    click.option("--image", help="Image, best by its digest: name@sha256:..."),
    click.option("--command", help="What sh -c runs where a workload says nothing."),
    click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Variable; no secrets."),
    click.option(
        "--mount", "mounts", multiple=True, metavar="SOURCE:PATH[:rw]", help="Data source and its place."
    ),
    click.option("--working-dir", metavar="PATH", help="Folder to run in."),
    click.option("--shm-mib", type=int, help="Shared memory of each pod."),
    click.option("--scratch-mib", type=int, help="Disk of each pod at /scratch."),
    click.option("--gpu-type", "gpu_types", multiple=True, help="Acceptable GPU type, best first."),
    click.option("--node-selector", multiple=True, metavar="KEY=VALUE", help="Only nodes with this label."),
    click.option(
        "--pull-credential",
        metavar="TEAM/NAME",
        help="Credential of the type registry, of the team or of one above it.",
    ),
    click.option("--note", help="What is new in it."),
]


def version_options(command: F) -> F:
    """Give a command the flags that describe a version."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.group()
def environments() -> None:
    """Keep images with their settings, in versions, for a team and those below: TEAM/NAME."""


@environments.command("list")
@click.option("--archived", is_flag=True, help="Those that take nothing new.")
@output_option
def list_(archived: bool, form: OutputFormat) -> None:
    """List the environments that you may see."""
    with connect() as client:
        rows = [row for row in client.rows("environments/") if row["archived"] == archived]
    show(rows, form, COLUMNS, name="reference", empty="There are no environments.")


@environments.command("show")
@click.argument("name")
@output_option
def show_(name: str, form: OutputFormat) -> None:
    """Show one (TEAM/NAME) with its versions."""
    with connect() as client:
        show_one(client.get(_of(name)), form, ONE, name="reference")


@environments.command()
@click.argument("name")
@version_options
@output_option
def create(name: str, form: OutputFormat, **flags: Any) -> None:
    """Make one of a team (TEAM/NAME) with its first version.

    \b
        chamber environments create nlp/pytorch --image registry.example.org/nlp/pytorch@sha256:...
        chamber environments create nlp/pytorch -f pytorch.yaml
    """
    team, own = _parts(name)
    body = {"name": own, "team": team, **_values(flags)}
    with connect() as client:
        show_one(client.post("environments/", body), form, ONE, name="reference")


@environments.command()
@click.argument("name")
@version_options
@output_option
def update(name: str, form: OutputFormat, **flags: Any) -> None:
    """Give it a new version: the newest with what flags change, or with --file all that stands there.

    What was submitted keeps its version.
    """
    with connect() as client:
        newest = client.get(_of(name))["newest"]
        values = _values(flags)
        if not flags["file"]:
            kept = {
                key: newest[key] for key in newest if key not in {"number", "made_by", "created_at", "note"}
            }
            values = {**kept, **values}
        show_one(client.post(f"{_of(name)}versions/", values), form, ONE, name="reference")


@environments.command()
@click.argument("name")
def archive(name: str) -> None:
    """Have it take nothing new. What waits or runs in it goes on."""
    _archive(name, archived=True)
    click.echo(f"Archived {name}.")


@environments.command()
@click.argument("name")
def restore(name: str) -> None:
    """Have submissions name it again."""
    _archive(name, archived=False)
    click.echo(f"Restored {name}.")


@environments.command()
@click.argument("name")
def delete(name: str) -> None:
    """Delete it; only where no workload runs or ran in it."""
    with connect() as client:
        client.delete(_of(name))
    click.echo(f"Deleted {name}.")


def _archive(name: str, *, archived: bool) -> None:
    with connect() as client:
        client.patch(_of(name), {"archived": archived})


def _parts(name: str) -> tuple[str, str]:
    team, slash, own = name.partition("/")
    if not slash or not team or not own or "@" in own:
        raise click.UsageError(f"{name!r} is no environment; name it TEAM/NAME.")
    return team, own


def _of(name: str) -> str:
    team, own = _parts(name)
    return f"teams/{segment(team)}/environments/{segment(own)}/"


def _mib(value: int | None) -> str | None:
    return f"{value:,} MiB" if value else None


def _values(flags: dict[str, Any]) -> Json:
    """Return what a file and flags say; flags win."""
    found: Json = _mapping(flags["file"]) if flags["file"] else {}
    for name, value in flags.items():
        if name == "file" or value in (None, ()):
            continue
        if name in {"variables", "node_selector"}:
            found[name] = {**found.get(name, {}), **dict(_pair(text) for text in value)}
        else:
            found[name] = list(value) if isinstance(value, tuple) else value
    return found


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"{text!r} has no =; write NAME=VALUE.")
    return name, value


def _mapping(source: str) -> Json:
    import yaml

    try:
        text = sys.stdin.read(MOST_BYTES + 1) if source == "-" else Path(source).read_text()
        read: Any = yaml.safe_load(text[: MOST_BYTES + 1])
    except OSError as error:
        raise Failure(f"{source} cannot be read: {error.strerror}.", Exit.USAGE) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise Failure(f"What --file {source} names is not YAML{line}.", Exit.USAGE) from error
    if not isinstance(read, dict):
        raise Failure(f"What --file {source} names is no mapping of names to values.", Exit.USAGE)
    return {str(name): value for name, value in read.items()}
