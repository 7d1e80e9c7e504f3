"""`chamber audit`, with `export`, `verify` and `accept`: who did what, and whether the trail is what was written."""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chamber.cli.client import connect
from chamber.cli.output import Column, OutputFormat, Row, output_option, show
from chamber.cli.status import Exit, Failure
from chamber.words import count

if TYPE_CHECKING:
    from teams.chain.files import FileProof
    from teams.chain.rows import ChainHead, Keyring

SHOWN = 50
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def _changes(row: Row) -> str:
    return json.dumps({"before": row["before"], "after": row["after"]}, ensure_ascii=False)


ROWS = [
    Column("When", lambda row: row["at"][:19].replace("T", " ")),
    Column("Who", lambda row: row["actor"] + (f" for {row['on_behalf_of']}" if row["on_behalf_of"] else "")),
    Column("Action", lambda row: row["action"]),
    Column("On", lambda row: f"{row['target_kind']} {row['target_name']}"),
    Column("By", lambda row: row["via"]),
    Column("Address", lambda row: row["address"]),
    Column("Client", lambda row: row["agent"], wide=True),
    Column("Changes", _changes, wide=True),
    Column("Id", lambda row: row["id"], wide=True),
]
FILTERS = (
    ("--who", "actor", "By whom: a user name."),
    ("--what", "action", "One act, such as team.moved, or all of a kind, such as team."),
    ("--on", "target", "On what: a name as it was then, or an id."),
    ("--team", "team", "What was done to this team, its members, shares and rules."),
    ("--since", "since", "From this day or time (UTC) on."),
    ("--until", "until", "Until the end of this day, or before this time (UTC)."),
    ("--address", "address", "From which client's address."),
    ("--via", "via", "page, api, cli, agent or system."),
)


def filter_options(command: F) -> F:
    """Give a command the filters of the trail."""
    for option, name, text in reversed(FILTERS):
        command = click.option(option, name, help=text)(command)
    return command


@click.group(invoke_without_command=True)
@filter_options
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many rows.  [default: {SHOWN} of a table, else all]",
)
@output_option
@click.pass_context
def audit(context: click.Context, /, form: OutputFormat, limit: int | None, **filters: str | None) -> None:
    """Show who did what, newest first: what your role reads of the audit trail.

    With json, yaml and csv all that matches is written, unless --limit says otherwise.
    """
    if context.invoked_subcommand is not None:
        if given := [name for name, value in {**filters, "limit": limit}.items() if value]:
            option = next((option for option, name, _ in FILTERS if name == given[0]), "--limit")
            raise click.UsageError(f"{option} comes after {context.invoked_subcommand}.")
        return
    is_table = form in {OutputFormat.TABLE, OutputFormat.WIDE, OutputFormat.NAME}
    most = limit or (SHOWN if is_table else None)
    with connect() as client:
        rows = client.rows("audit/", _asked(filters), limit=most)
        if form is OutputFormat.JSON:
            _write_json(rows)
        elif form is OutputFormat.CSV and limit is None:
            for part in client.text("audit/export/", {**_asked(filters), "format": "csv"}):
                click.echo(part, nl=False)
        else:
            shown = list(rows)
            show(shown, form, ROWS, name="id", empty="Nothing matches.")
            if is_table and limit is None and len(shown) == SHOWN:
                click.echo(f"These are the newest {SHOWN}; --limit shows more.", err=True)


@audit.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default="-")
@filter_options
def export(file: Path, **filters: str | None) -> None:
    """Write the trail to FILE (or stdout) as lines of JSON with its seals, for `chamber audit verify FILE`.

    With filters, or where your role does not read all of it, it is a selection: each row can be checked, what is
    between them not. Rows of the last seconds are not sealed yet, and left out.
    """
    last = ""
    with connect() as client:
        parts = client.text("audit/export/", {**_asked(filters), "format": "jsonl"})
        first = next(parts, "")  # what is refused leaves no file
        with click.open_file(str(file), "w", encoding="utf-8") as written:
            for part in chain([first], parts):
                written.write(part)
                last = (last + part)[-200:]
    ending = last.rstrip("\n").rpartition("\n")[2]
    if not ending.startswith('{"rows": '):
        raise Failure("The connection ended before all was sent: export it again.")
    click.echo(f"Wrote {count(json.loads(ending)['rows'], 'row')}.", err=True)


@audit.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--head", help="NUMBER:DIGEST of a row as it was known before; it has to be in the chain as such."
)
@click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Of a FILE: the server's audit key, and those before it, one a line; else signatures are not checked.",
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def verify(file: Path | None, head: str | None, key_file: Path | None, as_json: bool) -> None:
    """Check that no row of the trail was changed, taken away, inserted or moved since it was sealed.

    Without FILE it checks the database, where a server runs and with the same environment. FILE is what `chamber audit
    export` wrote, and is checked anywhere. Exit status 0: all fits. 1: it names the first row that does not.
    """
    known = _head(head) if head else None
    if file is not None:
        _tell(_verified_file(file, known, _keyring(key_file)), as_json=as_json)
    elif key_file is not None:
        raise click.UsageError("--key-file is for a FILE; the server's own keys are in its environment.")
    else:
        _tell(_verified_database(known), as_json=as_json)


@audit.command()
@click.argument("name", metavar="NUMBER:DIGEST")
@click.option("--reason", required=True, help="What happened, for whoever reads the trail later.")
@click.option("--by", "person", required=True, help="Who has looked into it.")
def accept(name: str, reason: str, person: str) -> None:
    """Accept a fault of the chain that you have looked into, so that what lies behind it is checked again.

    NUMBER:DIGEST names just this fault, as `chamber audit verify` prints it: another change there is another fault. Run
    it where a server runs. It is a row of the trail, and `verify` tells it from then on.
    """
    from chamber.errors import Conflict, Refusal
    from teams.actors import Actor, Via

    def act() -> tuple[Any, Any]:
        from teams.chain.accepting import accept as accepted

        by = Actor(name="console", via=Via.SYSTEM, on_behalf_of=person)
        return accepted(
            by=by, name=name.strip().lower(), reason=reason, tell=lambda head: _progress(head.number)
        )

    try:
        fault, following = _on_the_database(act)
    except Conflict as refusal:
        raise Failure(refusal.message, Exit.CONFLICT) from refusal
    except Refusal as refusal:
        raise Failure(refusal.message, Exit.USAGE) from refusal
    click.echo(f"Accepted: {fault.text}")
    if following is not None:
        raise Failure(
            f"Behind it the chain does not hold. {following.text}\n{_how_to_accept(following.name)}"
        )
    click.echo("Behind it the chain holds.")


def _how_to_accept(name: str) -> str:
    return f"Once you know why, accept it by: chamber audit accept {name} --by NAME --reason '…'"


def _asked(filters: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in filters.items() if value}


def _write_json(rows: Iterator[Row]) -> None:
    """Write an array row by row, however many there are."""
    before = "[\n"
    for row in rows:
        click.echo(before + json.dumps(row, ensure_ascii=False), nl=False)
        before = ",\n"
    click.echo("\n]" if before == ",\n" else "[]")


def _head(text: str) -> "ChainHead":
    from teams.chain.rows import GENESIS, ChainHead

    number, _, digest = text.strip().partition(":")
    if not (number.isascii() and number.isdigit() and len(number) < 19) or len(digest) != len(GENESIS):
        raise click.UsageError(
            f"--head is {text!r}; give NUMBER:DIGEST, as `chamber audit verify` prints it."
        )
    return ChainHead(int(number), digest.lower())


def _keyring(path: Path | None) -> "Keyring | None":
    from teams.chain.rows import Keyring

    if path is None:
        return None
    secrets = path.read_text(encoding="utf-8", errors="replace").split()
    if not secrets:
        raise click.UsageError(f"{path} has no key.")
    return Keyring.of(secrets)


def _verified_file(file: Path, known: "ChainHead | None", keyring: "Keyring | None") -> dict[str, Any]:
    from teams.chain.files import NoTrail, verify

    try:
        with click.open_file(str(file), encoding="utf-8") as lines:
            found = verify(lines, keyring=keyring, known=known, tell=_progress)
    except NoTrail as error:
        raise Failure(f"{file}: {error}", Exit.FAILED) from error
    except UnicodeDecodeError as error:
        raise Failure(f"{file} is no text: {error.reason} at byte {error.start}.", Exit.FAILED) from error
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}.", Exit.USAGE) from error
    return {
        "holds": not found.fault,
        "fault": found.fault,
        "rows": found.rows,
        "first": found.first,
        "head": str(found.last),
        "told_breaks": found.known_breaks,
        "notes": _notes(found, keyring, known),
    }


def _notes(found: "FileProof", keyring: "Keyring | None", known: "ChainHead | None") -> list[str]:
    notes = [
        f"When it was exported, the file says, this break was known: {each}" for each in found.known_breaks
    ]
    if known is not None and not found.saw_known:
        notes.append(f"Row {known.number} of --head is not in the file; it could not be compared.")
    if found.is_selection:
        stretches = count(found.stretches, "stretch", "stretches")
        notes.append(
            f"The file is a selection, in {stretches}; what is between them cannot be checked by it."
        )
    if keyring is None:
        notes.append(
            "Signatures were not checked: whoever could write the whole chain anew could make such a file. "
            "Compare the head with one known before, or give --key-file."
        )
    elif found.unknown_keys:
        names = ", ".join(sorted(found.unknown_keys))
        notes.append(
            f"{count(found.rows - found.signed, 'row')} signed with other keys ({names}) could not be checked."
        )
    return notes


def _verified_database(known: "ChainHead | None") -> dict[str, Any]:
    def check() -> dict[str, Any]:
        from teams.chain.verifying import verified

        return verified(known, tell=_progress)

    return _on_the_database(check)


def _on_the_database(act: Callable[[], T]) -> T:
    """Do something on the database of this environment, or say why that cannot be."""
    from chamber.serving.start import CannotStart, load

    try:
        load()
    except CannotStart as error:
        raise Failure(f"{error} Run it where a server runs, or give a FILE.", Exit.USAGE) from error
    from django.db import DatabaseError

    try:
        return act()
    except DatabaseError as error:
        text = str(error).strip().rstrip(".")
        raise Failure(
            f"The database of this environment cannot be read: {text}. Run it where a server runs, or give a FILE."
        ) from error


def _progress(rows: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{rows:,} rows", nl=False, err=True)


def _tell_notes(result: dict[str, Any]) -> None:
    known = result.get("known_breaks", [])
    if known:
        click.echo(f"{count(len(known), 'known break')}:")
    for line in (*(f"  {each}" for each in known), *result["notes"]):
        click.echo(line)


def _tell(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result, indent=2, ensure_ascii=False))
    elif result["holds"]:
        last = result["head"].partition(":")[0]
        rows = f", from row {result['first']} to row {last}" if result["rows"] else ""
        click.echo(f"The chain holds: {count(result['rows'], 'row')}{rows}.\nHead: {result['head']}")
        _tell_notes(result)
    else:
        click.echo(f"The chain does not hold. {result['fault']}")
        click.echo(f"Up to row {result['head'].partition(':')[0]} it does.")
        _tell_notes(result)
        if name := result.get("fault_name"):
            click.echo(_how_to_accept(name))
    sys.exit(Exit.DONE if result["holds"] else Exit.FAILED)
