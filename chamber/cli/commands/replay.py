"""`chamber replay`: a stored cycle decided again; what it works with is imported when it runs."""

import json
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from chamber.cli.status import Exit

if TYPE_CHECKING:
    from scheduling.cycle.replay import Replay

NEWEST = "last"
SHOWN = 20


@click.command()
@click.argument("cycle")
@click.option("--verify", is_flag=True, help="Have an independent checker look at the plan, too.")
@click.option("--json", "as_json", is_flag=True, help="For programs, with every difference.")
def replay(cycle: str, verify: bool, as_json: bool) -> None:
    """Decide a stored CYCLE again and say whether the plan is the same; "last" is the newest that can be.

    Run it where a server runs, with the same environment; it writes nothing. Exit status 0: the plan is the same, and
    breaks no rule. 1: it is not, or does. 3: there is no such cycle. 6: its snapshot was not kept or cannot be read.
    """
    if cycle != NEWEST and not (cycle.isascii() and cycle.isdecimal() and len(cycle) <= 18):
        raise click.UsageError(f"CYCLE is {cycle!r}; it must be the number of a cycle, or {NEWEST!r}.")
    found = _replay(None if cycle == NEWEST else int(cycle), verify=verify)
    if as_json:
        click.echo(json.dumps(_as_json(found), indent=2, ensure_ascii=False))
    else:
        _tell(found)
    sys.exit(Exit.DONE if found.same and not found.violations else Exit.FAILED)


def _replay(number: int | None, *, verify: bool) -> "Replay":
    from chamber.serving.start import CannotStart, load

    try:
        load()
    except CannotStart as error:
        _stop(str(error), error.status)
    from django.db import DatabaseError

    from chamber.errors import NotVisible, Refusal
    from scheduling.cycle.replay import replay as run

    try:
        return run(number, verify=verify)
    except NotVisible as error:
        _stop(error.message, Exit.NOT_FOUND)
    except Refusal as error:
        _stop(error.message, Exit.REJECTED)
    except DatabaseError as error:
        first = str(error).strip().splitlines()[0]
        _stop(f"The database cannot be read ({first}); `chamber doctor` says more.", Exit.FAILED)


def _stop(sentence: str, status: Exit) -> NoReturn:
    click.echo(sentence, err=True)
    sys.exit(status)


def _tell(found: "Replay") -> None:
    began = f"{found.began_at:%Y-%m-%d %H:%M:%S} UTC"
    click.echo(f"Cycle {found.cycle} of {began}: {_verdict(found)}")
    if found.other_engine:
        click.echo(
            f"Another version of the engine decided then: {found.engine_then}, this one is {found.engine_now}."
        )
    elif not found.engine_then and not found.same:
        click.echo("Which version of the engine decided then was not recorded.")
    for difference in found.differences[:SHOWN]:
        click.echo(f"  {difference}")
    if len(found.differences) > SHOWN:
        click.echo(f"  and {len(found.differences) - SHOWN:,} more; --json has all.")
    if found.violations is not None:
        count = len(found.violations)
        click.echo(f"The checker finds {count or 'no'} broken {'rule' if count == 1 else 'rules'}.")
    for violation in (found.violations or ())[:SHOWN]:
        click.echo(f"  {violation.rule}: {violation.message}")


def _verdict(found: "Replay") -> str:
    if found.error_now:
        return "the engine fails on it as it did then." if found.same else "the engine fails on it."
    if not found.same:
        return (
            "the plan is another one."
            if found.differences
            else "the plan is another one, in what is not stored."
        )
    how = "byte for byte" if found.whole else "in all that was stored of it"
    counts = ", ".join(_counted(count, name) for name, count in found.decisions.items() if count)
    return f"the plan is the same, {how} ({counts or 'nothing to decide'})."


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name.removesuffix('s') if count == 1 else name}"


def _as_json(found: "Replay") -> dict[str, Any]:
    violations = found.violations
    return {
        "cycle": found.cycle,
        "began_at": found.began_at.isoformat(),
        "same": found.same,
        "compared": "whole plan" if found.whole else "what was stored",
        "engine": {"then": found.engine_then or None, "now": found.engine_now},
        "error": {"then": found.error_then or None, "now": found.error_now or None},
        "decisions": dict(found.decisions),
        "differences": list(found.differences),
        "violations": None
        if violations is None
        else [
            {"rule": str(violation.rule), "rows": list(violation.rows), "message": violation.message}
            for violation in violations
        ],
    }
