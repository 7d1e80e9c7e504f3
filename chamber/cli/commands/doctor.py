"""`chamber doctor`: what is wrong with a deployment; what it looks with is imported when it runs."""

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import click

from chamber.cli.status import Exit

if TYPE_CHECKING:
    from chamber.doctor.finding import Examination


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs: findings, checks made and left out.")
def doctor(as_json: bool) -> None:
    """Say what is wrong with a deployment, and what to do about it.

    Run it where a server runs, with the same environment. Exit status 0: all is well. 1: something is not.
    """
    result = _examine()
    if as_json:
        click.echo(json.dumps(_as_json(result), indent=2, ensure_ascii=False))
    else:
        _tell(result)
    sys.exit(Exit.FAILED if result.findings else Exit.DONE)


def _examine() -> "Examination":
    from chamber.serving.start import CannotStart, load

    try:
        load()
    except CannotStart as error:
        from chamber.doctor.finding import Examination, Finding

        refused = Finding(str(error), "Correct the environment; nothing else can be looked at before.")
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
    if result.left_out:
        click.echo(f"Not looked at, because of that: {', '.join(result.left_out)}.")
    if not result.findings:
        click.echo(f"All is well: {len(result.made)} checks found nothing.")


def _as_json(result: "Examination") -> dict[str, Any]:
    return {
        "well": not result.findings,
        "findings": [
            {"check": name, "problem": finding.problem, "advice": finding.advice}
            for name, finding in result.findings
        ],
        "made": result.made,
        "left_out": result.left_out,
    }
