"""`chamber classes` and `chamber tiers`: what submissions have that say nothing, and named priorities."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from chamber.cli.client import Client, Json, connect, segment
from chamber.cli.durations import Duration
from chamber.cli.output import Column, OutputFormat, Row, output_option, show
from chamber.cli.status import Exit, Failure
from teams.durations import duration_text

F = TypeVar("F", bound=Callable[..., Any])
SHARING = click.Choice(["always", "elastic", "never"])
NO_LIMIT = "none"


class LimitOrNone(Duration):
    """A duration, or the word none for no limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds; the word none as it is."""
        return NO_LIMIT if str(value).strip().lower() == NO_LIMIT else super().convert(value, param, ctx)


def _state(row: Row) -> str:
    return "retired" if row["retired"] else "default" if row.get("is_default") else "taken"


def _limit(row: Row) -> str:
    return duration_text(row["time_limit_seconds"]) or "none"


CLASSES = [
    Column("Class", lambda row: row["slug"]),
    Column("Name", lambda row: row["name"], wide=True),
    Column("Tier", lambda row: row["tier"]),
    Column("Priority", lambda row: row["priority"], number=True),
    Column("Time limit", _limit),
    Column("Retries", lambda row: row["max_retries"], number=True),
    Column("When preempted", lambda row: row["on_preemption"]),
    Column("GPU shared by", lambda row: row["sharing"]),
    Column("State", _state),
]
TIERS = [
    Column("Tier", lambda row: row["slug"]),
    Column("Name", lambda row: row["name"], wide=True),
    Column("Priority", lambda row: row["priority"], number=True),
    Column("Least role", lambda row: row["least_role"]),
    Column("PriorityClasses", lambda row: ", ".join(row["priority_classes"]) or "none"),
    Column("State", _state),
]


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


NARROWED = (
    click.option("--tier", help="Priority tier, by its slug."),
    click.option(
        "--time-limit", "time_limit_seconds", type=LimitOrNone(), help="Such as 30m, 24h, 2d; none: no limit."
    ),
    click.option("--max-retries", type=int, help="How often to try again after a failure, 0 to 100."),
    click.option("--sharing", type=SHARING, help="Whose parts of a GPU share one with others."),
)


@click.group()
def classes() -> None:
    """Show job classes, change them, and narrow them for a team."""


@classes.command("list")
@click.option("--team", help="As they are in this team, by its slug.")
@output_option
def list_classes(team: str | None, form: OutputFormat) -> None:
    """Show the organisation's job classes, or what holds of them in a team."""
    with connect() as client:
        rows = list(client.rows(f"teams/{segment(team)}/classes/" if team else "classes/"))
    show(rows, form, CLASSES, name="slug", empty="There is no job class that you may see.")


@classes.command("set")
@click.argument("slug", metavar="CLASS")
@click.option("--name", help="Its name on pages.")
@_options(*NARROWED)
@click.option("--on-preemption", type=click.Choice(["requeue", "stop"]), help="What then becomes of it.")
@click.option("--order", type=int, help="Its place in lists.")
@click.option(
    "--default", "is_default", is_flag=True, default=None, help="Of submissions that name no class."
)
@output_option
def set_class(slug: str, form: OutputFormat, **flags: Any) -> None:
    """Make a job class, or change what the flags name of one. It holds for what is submitted from now on."""
    with connect() as client:
        row = _set(client, "classes/", slug, _given(flags))
    show([row], form, CLASSES, name="slug")


@classes.command("narrow")
@click.argument("slug", metavar="CLASS")
@click.option("--team", required=True, help="For this team and those below, by its slug.")
@_options(*NARROWED)
@click.option("--clear", is_flag=True, help="Say nothing of it any more, before what the flags say.")
@output_option
def narrow(slug: str, team: str, clear: bool, form: OutputFormat, **flags: Any) -> None:
    """Give a class stricter defaults in a team and those below; what no flag names stays as the team has it."""
    given = _given(flags)
    if not given and not clear:
        raise Failure("Give what is to be stricter, or --clear.", Exit.USAGE)
    if given.get("time_limit_seconds", 1) is None:
        raise Failure("--time-limit is 'none': a team can only make it shorter.", Exit.USAGE)
    with connect() as client:
        address = f"teams/{segment(team)}/classes/"
        rows = {row["slug"]: row for row in client.rows(address)}
        now = rows.get(slug, {"own": {}, "version": 0})
        body = {**({} if clear else now["own"]), **given}
        row = client.edit("PUT", f"{address}{segment(slug)}/", body, version=now["version"])
    show([row], form, CLASSES, name="slug")


@click.group()
def tiers() -> None:
    """Show priority tiers, and change them."""


@tiers.command("list")
@output_option
def list_tiers(form: OutputFormat) -> None:
    """Show the organisation's priority tiers, the lowest first."""
    with connect() as client:
        rows = list(client.rows("tiers/"))
    show(rows, form, TIERS, name="slug", empty="There is no priority tier that you may see.")


@tiers.command("set")
@click.argument("slug", metavar="TIER")
@click.option("--name", help="Its name on pages.")
@click.option("--priority", type=int, help="Its number: 0 to 99 is elastic, from 100 reserved.")
@click.option(
    "--least-role", type=click.Choice(["researcher", "lead", "admin"]), help="Least role that may use it."
)
@click.option(
    "--priority-class",
    "priority_classes",
    multiple=True,
    help="PriorityClass of Jobs made with kubectl that have it, all of them anew; may come several times.",
)
@output_option
def set_tier(slug: str, form: OutputFormat, **flags: Any) -> None:
    """Make a priority tier, or change what the flags name of one."""
    with connect() as client:
        row = _set(client, "tiers/", slug, _given(flags))
    show([row], form, TIERS, name="slug")


def _given(flags: Mapping[str, Any]) -> Json:
    """Return what the flags say, in the words of the API."""
    asked = {name: list(value) if isinstance(value, tuple) else value for name, value in flags.items()}
    asked = {name: value for name, value in asked.items() if value not in (None, [])}
    return {name: None if value == NO_LIMIT else value for name, value in asked.items()}


def _set(client: Client, address: str, slug: str, given: Json) -> Json:
    """Make what is not there, change what is."""
    rows = {row["slug"]: row for row in client.rows(address)}
    if slug not in rows:
        made: Json = client.post(address, {"slug": slug, **given})
        return made
    place = f"{address}{segment(slug)}/"
    changed: Json = client.edit("PATCH", place, given, version=rows[slug]["version"])
    return changed


def _acts(group: click.Group, address: str, noun: str) -> None:
    """Give a group the commands retire, restore and delete."""

    def retire_or_restore(slug: str, *, retired: bool) -> None:
        with connect() as client:
            place = f"{address}{segment(slug)}/"
            version = client.get(place)["version"]
            client.edit("PATCH", place, {"retired": retired}, version=version)
        click.echo(f"The {noun} {slug} is {'retired' if retired else 'taken again'}.")

    @group.command(help=f"Have submissions name a {noun} no longer; what has it keeps it.")
    @click.argument("slug", metavar="NAME")
    def retire(slug: str) -> None:
        retire_or_restore(slug, retired=True)

    @group.command(help=f"Have submissions name a retired {noun} again.")
    @click.argument("slug", metavar="NAME")
    def restore(slug: str) -> None:
        retire_or_restore(slug, retired=False)

    @group.command(help=f"Delete a {noun} that nothing has or had.")
    @click.argument("slug", metavar="NAME")
    def delete(slug: str) -> None:
        with connect() as client:
            client.get(f"{address}{segment(slug)}/")
            client.delete(f"{address}{segment(slug)}/")
        click.echo(f"The {noun} {slug} is deleted.")


_acts(classes, "classes/", "job class")
_acts(tiers, "tiers/", "tier")
