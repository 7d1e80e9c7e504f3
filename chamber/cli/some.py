"""Long lists: at most so many rows are shown, and whoever reads is told that there are more."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import islice
from typing import Any

import click

from chamber.cli.output import Column, OutputFormat, Row, show

MOST = 50


def limit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--limit` and `--all`, passed on as `limit`; None is all."""

    @click.option(
        "--limit", type=click.IntRange(min=1), default=MOST, show_default=True, help="At most so many."
    )
    @click.option("--all", "everything", is_flag=True, help="All of them.")
    @wraps(command)
    def limited(*, limit: int, everything: bool, **options: Any) -> None:
        command(limit=None if everything else limit, **options)

    return limited


def one_more(limit: int | None) -> int | None:
    """Return how many rows to ask for, so that it is known whether there are more than are shown."""
    return None if limit is None else limit + 1


def show_some(
    rows: Iterable[Row],
    form: OutputFormat,
    columns: Sequence[Column],
    *,
    limit: int | None,
    name: str = "slug",
    empty: str = "",
) -> None:
    """Write the first rows, in every form; where there are more, say so on stderr, and how to have them."""
    if limit is None:
        show(rows, form, columns, name=name, empty=empty)
        return
    found = list(islice(rows, limit + 1))
    show(found[:limit], form, columns, name=name, empty=empty)
    if len(found) > limit:
        click.echo(
            f"The first {limit:,} are shown, and there are more: see all with --all, or more with --limit NUMBER.",
            err=True,
        )
