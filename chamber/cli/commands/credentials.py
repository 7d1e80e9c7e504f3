"""`chamber credentials list, show, add, replace, delete`. Values are read from a prompt, a file or standard input: what
stands on the command line is seen by everybody on the machine, and kept by the shell.
"""

import sys
from pathlib import Path
from typing import Any

import click

from chamber.cli.client import Json, connect, segment
from chamber.cli.output import Column, OutputFormat, ago, output_option, show, show_one
from chamber.cli.status import Exit, Failure

SHOWN: dict[str, tuple[str, ...]] = {
    "token": ("variable",),
    "s3": ("endpoint_url", "region"),
    "registry": ("server", "username"),
    "git": ("server", "username"),
    "variables": (),
    "files": (),
    "secret": ("secret", "use"),
}
"""What of each type is no secret, and may stand on the command line."""
ASKED: dict[str, tuple[str, ...]] = {
    "token": ("token",),
    "s3": ("access_key_id", "secret_access_key"),
    "registry": ("password",),
    "git": ("password",),
}
"""What is asked for where no file says it."""
MOST_BYTES = 64 * 1024
"""More is no credential."""

COLUMNS = [
    Column("Name", lambda row: row["reference"]),
    Column("Type", lambda row: row["type"]),
    Column("Team", lambda row: row["team"] or "your own"),
    Column("Open workloads", lambda row: row["open_workloads"], number=True),
    Column("Last used", lambda row: ago(row["last_used_at"]) or "never"),
    Column("Values given", lambda row: ago(row["replaced_at"])),
    Column("Secret", lambda row: row["parts"], wide=True),
    Column("Details", lambda row: [f"{key}={value}" for key, value in row["details"].items()], wide=True),
]

set_option = click.option(
    "--set",
    "details",
    multiple=True,
    metavar="NAME=VALUE",
    help="What is no secret, such as server=registry.example.org; may come several times.",
)
from_option = click.option(
    "--from",
    "source",
    metavar="FILE",
    help="YAML or JSON with the secrets by name (for variables: with the variables); - reads standard input. "
    "Else they are asked for.",
)
file_option = click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file, for the type files; may come several times.",
)


@click.group()
def credentials() -> None:
    """Keep secrets that pods of workloads get: your own as NAME, those of a team as TEAM/NAME.

    Values are stored encrypted and never shown again.
    """


@credentials.command("list")
@output_option
def list_(form: OutputFormat) -> None:
    """List your own credentials, and those of teams that you may submit to."""
    with connect() as client:
        rows = list(client.rows("credentials/"))
    show(rows, form, COLUMNS, name="reference", empty="There are no credentials.")


@credentials.command("show")
@click.argument("name")
@output_option
def show_(name: str, form: OutputFormat) -> None:
    """Show one, without its values."""
    with connect() as client:
        show_one(client.get(_of(name)), form, COLUMNS, name="reference")


@credentials.command()
@click.argument("name")
@click.option("--type", "kind", type=click.Choice(list(SHOWN)), required=True, help="What it is.")
@set_option
@from_option
@file_option
@output_option
def add(  # noqa: PLR0917 - an option each
    name: str,
    kind: str,
    details: tuple[str, ...],
    source: str | None,
    files: tuple[Path, ...],
    form: OutputFormat,
) -> None:
    """Make one of your own (NAME), or of a team (TEAM/NAME).

    \b
        chamber credentials add hf-token --type token
        chamber credentials add nlp/data --type s3 --set endpoint_url=https://s3.example.org
        chamber credentials add db --type variables --from db.yaml
    """
    team, _, own = name.rpartition("/")
    values = _values(kind, details, source, files)
    body = {"name": own, "team": team or None, "type": kind, "values": values}
    with connect() as client:
        show_one(client.post("credentials/", body), form, COLUMNS, name="reference")


@credentials.command()
@click.argument("name")
@set_option
@from_option
@file_option
@output_option
def replace(
    name: str, details: tuple[str, ...], source: str | None, files: tuple[Path, ...], form: OutputFormat
) -> None:
    """Give it other values: all its secrets anew. What runs keeps those that it was started with."""
    with connect() as client:
        kind = client.get(_of(name))["type"]
        values = _values(kind, details, source, files)
        show_one(client.put(_of(name), {"values": values}), form, COLUMNS, name="reference")


@credentials.command()
@click.argument("name")
def delete(name: str) -> None:
    """Delete it. What runs keeps it until it ends; what names it and waits does not start."""
    with connect() as client:
        client.delete(_of(name))
    click.echo(f"Deleted {name}.")


def _of(name: str) -> str:
    team, _, own = name.rpartition("/")
    whose = f"teams/{segment(team)}/" if team else ""
    return f"{whose}credentials/{segment(own)}/"


def _values(kind: str, details: tuple[str, ...], source: str | None, files: tuple[Path, ...]) -> Json:
    known = SHOWN.get(kind, ())
    values: Json = {}
    for text in details:
        name, sign, value = text.partition("=")
        if name not in known:
            allowed = ", ".join(known) or "nothing"
            raise click.UsageError(
                f"--set {name} is not taken for the type {kind}; it takes {allowed}. Secrets are asked for, or read by "
                "--from."
            )
        if not sign:
            raise click.UsageError(f"--set is {text!r}; it must be NAME=VALUE.")
        values[name] = value
    if files and kind != "files":
        raise click.UsageError(f"--file is for the type files, not for {kind}.")
    if files:
        return {**values, "files": {path.name: _read(path) for path in files}}
    if source is not None:
        read = _mapping(source)
        # What a file of variables, or of keys of a Secret, has is meant as these.
        return {**values, "variables": read} if kind in {"variables", "secret"} else {**values, **read}
    return {**values, **_asked(kind)}


def _asked(kind: str) -> Json:
    if kind == "secret":
        return {}
    if kind not in ASKED:
        raise click.UsageError(
            "Give the files by --file."
            if kind == "files"
            else "Give the variables by --from FILE, or --from -."
        )
    if not sys.stdin.isatty() and len(ASKED[kind]) > 1:
        raise click.UsageError(f"Give {' and '.join(ASKED[kind])} by --from FILE, or --from -.")
    if not sys.stdin.isatty():
        return {ASKED[kind][0]: sys.stdin.readline().rstrip("\r\n")}
    return {name: click.prompt(name, hide_input=True, err=True) for name in ASKED[kind]}


def _mapping(source: str) -> Json:
    import yaml

    text = sys.stdin.read(MOST_BYTES + 1) if source == "-" else _read(Path(source))
    try:
        read: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # What stands there may be a secret: only its place is told.
        line = f" in line {mark.line + 1}" if mark else ""
        raise Failure(f"What --from {source} names is not YAML{line}.", Exit.USAGE) from error
    if not isinstance(read, dict):
        raise Failure(f"What --from {source} names is no mapping of names to values.", Exit.USAGE)
    return {str(name): value for name, value in read.items()}


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise Failure(f"{path} has more than {MOST_BYTES:,} bytes.", Exit.USAGE)
        return content.decode()
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}.", Exit.USAGE) from error
    except UnicodeDecodeError as error:
        raise Failure(f"{path} is no text; encode it as base64 first.", Exit.USAGE) from error
