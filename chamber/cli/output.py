"""How results are shown: a table for people, and stable forms for programs."""

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

import click

from chamber.words import as_cell, code_in_words

Row = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


class OutputFormat(StrEnum):
    """The forms that `-o` takes."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, what of a row it shows, and whether only `wide` and `csv` have it."""

    heading: str
    value: Callable[[Row], object]
    wide: bool = False
    number: bool = False


def output_option(command: F) -> F:
    """Give a command `-o`, passed on as `form`."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(OutputFormat, case_sensitive=False),
        default=OutputFormat.TABLE,
        help="Form of the output: table for people; json, yaml, csv and name stay as they are for scripts.",
    )(command)


def show(
    rows: Iterable[Row], form: OutputFormat, columns: Sequence[Column], *, name: str = "slug", empty: str = ""
) -> None:
    """Write several rows; `empty` is said on stderr where a person looks at a table without rows."""
    found = list(rows)
    if form in {OutputFormat.JSON, OutputFormat.YAML}:
        _write_data(found, form)
    elif form is OutputFormat.NAME:
        for row in found:
            click.echo(row[name])
    elif form is OutputFormat.CSV:
        _write_csv(found, columns)
    elif found:
        _write_table(found, [column for column in columns if form is OutputFormat.WIDE or not column.wide])
    elif empty:
        click.echo(empty, err=True)


def show_one(row: Row, form: OutputFormat, columns: Sequence[Column], *, name: str = "slug") -> None:
    """Write one thing: for people a line for each fact that is known."""
    if form in {OutputFormat.JSON, OutputFormat.YAML}:
        _write_data(row, form)
    elif form is OutputFormat.NAME:
        click.echo(row[name])
    elif form is OutputFormat.CSV:
        _write_csv([row], columns)
    else:
        facts = [
            (column.heading, text(column.value(row)))
            for column in columns
            if form is OutputFormat.WIDE or not column.wide
        ]
        width = max(len(heading) for heading, _ in facts)
        for heading, value in facts:
            if value:
                click.echo(f"{heading:<{width}}  {value}")


def text(value: object) -> str:
    """Return a value as a person reads it; nothing for what is not known."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ", ".join(text(part) for part in value)
    return str(value)


def in_words(code: str | None) -> str:
    """Return a code of the API as a person reads it: `Waiting for GPUs`; nothing for none."""
    return code_in_words(code or "")


def gpus(value: object) -> str:
    """Return a number of GPUs with its unit; nothing for what is not known."""
    if value is None:
        return ""
    return f"{text(value)} {'GPU' if value == 1 else 'GPUs'}"


def local_time(moment: datetime) -> str:
    """Return a time as this machine's clock shows it, with date and zone: `2026-01-01 13:00:00 CET`."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def ago(moment: str | None, now: datetime | None = None) -> str:
    """Return how long ago an ISO 8601 time was, or how far ahead it is, in its largest unit or two."""
    if not moment:
        return ""
    seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(moment)).total_seconds()
    return duration(abs(seconds)) + (" ago" if seconds >= 0 else " from now")


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: `42 s`, `1 min 30 s`, `3 h 20 min`, `2 d 4 h`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def in_colour() -> bool:
    """Return whether stdout is a terminal that may be coloured."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _write_data(data: object, form: OutputFormat) -> None:
    if form is OutputFormat.JSON:
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    import yaml

    click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


def _write_csv(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow([column.heading for column in columns])
    for row in rows:
        writer.writerow([_no_formula(column.value(row)) for column in columns])
    click.echo(lines.getvalue(), nl=False)


def _no_formula(value: object) -> str:
    """Return a cell that no spreadsheet takes for a formula; people choose names themselves."""
    return as_cell(value) if isinstance(value, str) else text(value)


def _write_table(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    """Write aligned columns; a terminal gets rich's, cut to its width, anything else plain lines in full."""
    cells = [[text(column.value(row)) for column in columns] for row in rows]
    if not sys.stdout.isatty():
        _write_plain(cells, columns)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column.heading, justify="right" if column.number else "left", no_wrap=True, overflow="ellipsis"
        )
    for line in cells:
        table.add_row(*(_marked(cell) for cell in line))
    Console(no_color=not in_colour(), highlight=False).print(table)


def _write_plain(cells: Sequence[Sequence[str]], columns: Sequence[Column]) -> None:
    lines = [[column.heading.upper() for column in columns], *cells]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (
            cell.rjust(width) if column.number else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


_COLOURS = {
    "Running": "green",
    "Completed": "green",
    "Failed": "red",
    "Preempted": "yellow",
    "Pending": "cyan",
    "Queued": "cyan",
    "Starting": "cyan",
}


def _marked(cell: str) -> Any:
    """Return a cell for rich, a status in its colour; what users typed is never read as markup."""
    from rich.text import Text

    return Text(cell, style=_COLOURS.get(cell, ""))
