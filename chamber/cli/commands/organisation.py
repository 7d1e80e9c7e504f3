"""`chamber teams`, `pools`, `queue`."""

from collections.abc import Sequence

import click

from chamber.cli.client import Client, Json, connect
from chamber.cli.columns import slices
from chamber.cli.output import Column, OutputFormat, Row, ago, in_words, output_option, show
from chamber.cli.some import limit_options, one_more, show_some
from chamber.cli.status import Exit, Failure
from chamber.words import nearest

NO_TEAM = "You belong to no team: ask an admin of one to add you."
NO_POOL = "There is no pool yet: an operator makes one on the page Pools, or with `chamber apply -f FILE`."


TEAMS = [
    Column("Team", lambda row: "  " * row["level"] + row["name"]),
    Column("Slug", lambda row: row["team"], wide=True),
    Column("Pool", lambda row: row["pool"], wide=True),
    Column("Weight", lambda row: row["bursting_priority"], number=True, wide=True),
    Column("Guarantee", lambda row: row["guarantee"], number=True),
    Column("In use", lambda row: row["in_use"], number=True),
    Column("Slices", slices, number=True),
    Column("Reserved", lambda row: row["reserved"], number=True, wide=True),
    Column("Elastic", lambda row: row["elastic"], number=True, wide=True),
    Column("Burst", lambda row: row["burst"], number=True),
    Column("Entitlement", lambda row: row["entitlement"], number=True),
    Column("Ceiling", lambda row: "no limit" if row["ceiling"] is None else row["ceiling"], number=True),
    Column("Waiting", lambda row: row["waiting"], number=True),
    Column("Not queued", lambda row: row["not_queued"], number=True),
    Column("Waiting for", lambda row: row["waiting_for"], number=True, wide=True),
]


@click.command()
@click.option("--pool", help="Only the figures of this pool.")
@output_option
def teams(pool: str | None, form: OutputFormat) -> None:
    """Show the tree of teams with guarantees and use, in GPUs; each team counts all below it.

    Slices of GPUs (MIG, replicas) count by their share of one; their number is shown beside it.
    """
    with connect() as client:
        tree = list(client.rows("teams/"))
        by_pool = {slug: _figures(client, tree, slug) for slug in _pools(client, pool)}
    if form not in {OutputFormat.TABLE, OutputFormat.WIDE}:
        rows = [row for rows in by_pool.values() for row in rows]
        show(_once(rows) if form is OutputFormat.NAME else rows, form, TEAMS, name="team")
        return
    if not by_pool:
        click.echo(NO_POOL if tree else NO_TEAM, err=True)
    for number, (slug, rows) in enumerate(by_pool.items()):
        click.echo(f"{chr(10) if number else ''}Pool {slug}")
        show(rows, form, TEAMS, empty=NO_TEAM)


def _pools(client: Client, wanted: str | None) -> list[str]:
    slugs = [str(pool["slug"]) for pool in client.rows("pools/")]
    if wanted is None:
        return slugs
    if wanted not in slugs:
        told = nearest(wanted, slugs) or f" There are {', '.join(slugs) or 'none'}."
        raise Failure(f"There is no pool {wanted!r}.{told}", Exit.NOT_FOUND)
    return [wanted]


def _figures(client: Client, tree: Sequence[Json], pool: str) -> list[Row]:
    """Return a row for each team, in the tree's order, with its figures in the pool."""
    figures = {row["team"]: row for row in client.rows("teams-figures/", {"pool": pool})}
    top = min((team["depth"] for team in tree), default=0)
    return [
        {
            "team": team["slug"],
            "name": team["name"],
            "parent": team["parent"],
            "level": team["depth"] - top,
            "bursting_priority": team["bursting_priority"],
            "pool": pool,
            **figures[team["slug"]],
        }
        for team in tree
        if team["slug"] in figures
    ]


def _once(rows: Sequence[Row]) -> list[Row]:
    return list({row["team"]: row for row in rows}.values())


POOLS = [
    Column("Pool", lambda pool: pool["slug"]),
    Column("Name", lambda pool: pool["name"], wide=True),
    Column("Capacity", lambda pool: pool["figures"]["capacity"], number=True),
    Column("Slices", lambda pool: slices(pool["figures"]), number=True),
    Column("Guaranteed", lambda pool: pool["guaranteed"], number=True),
    Column("Reserved", lambda pool: pool["figures"]["reserved"], number=True, wide=True),
    Column("Elastic", lambda pool: pool["figures"]["elastic"], number=True, wide=True),
    Column("Burst", lambda pool: pool["figures"]["burst"], number=True, wide=True),
    Column("In use", lambda pool: pool["figures"]["in_use"], number=True),
    Column("Idle", lambda pool: pool["figures"]["idle"], number=True),
    Column("Unavailable", lambda pool: pool["figures"]["unavailable"], number=True),
    Column("Waiting", lambda pool: pool["figures"]["waiting"], number=True),
    Column("Not queued", lambda pool: pool["figures"]["not_queued"], number=True),
    Column("State", lambda pool: "paused" if pool["paused"] else "open"),
    Column("Warning", lambda pool: pool["warning"], wide=True),
]


@click.command()
@output_option
def pools(form: OutputFormat) -> None:
    """Show the pools and what is free in them, in GPUs.

    Slices of GPUs (MIG, replicas) count by their share of one; their number is shown beside it.
    """
    with connect() as client:
        figures = {row["pool"]: row for row in client.rows("pools-figures/")}
        found = [
            {**pool, "figures": figures[pool["slug"]]}
            for pool in client.rows("pools/")
            if pool["slug"] in figures
        ]
        tree = found or list(client.rows("teams/"))
    show(found, form, POOLS, empty=NO_POOL if tree else NO_TEAM)


QUEUE = [
    Column("Position", lambda row: row["position"], number=True),
    Column("Workload", lambda row: row["workload"] or "(not yours to see)"),
    Column("Team", lambda row: row["team"]),
    Column("Owner", lambda row: row["owner"], wide=True),
    Column("Priority", lambda row: row["priority"], number=True),
    Column("GPUs", lambda row: row["gpus"], number=True),
    Column("Waits", lambda row: ago(row["submitted_at"]).removesuffix(" ago")),
    Column("Reason", lambda row: in_words(row["code"])),
    Column("Starts", lambda row: row["eta"]["text"]),
    Column("Why", lambda row: row["message"], wide=True),
]


@click.command()
@click.argument("named_pool", metavar="[POOL]", default="")
@click.option("--pool", help="The pool, as the argument; else the organisation's first.")
@limit_options
@output_option
def queue(named_pool: str, pool: str | None, limit: int | None, form: OutputFormat) -> None:
    """Show a pool's queue in order, with reasons.

    Of workloads that you may not see, only what anybody may know is shown.
    """
    if named_pool and pool and named_pool != pool:
        raise Failure(f"Two pools are named: {named_pool!r} and, by --pool, {pool!r}. Name one.", Exit.USAGE)
    pool = pool or named_pool
    with connect() as client:
        rows = list(client.rows("queue/", {"pool": pool} if pool else {}, limit=one_more(limit)))
    named = [row for row in rows if row["workload"] or form is not OutputFormat.NAME]
    show_some(named, form, QUEUE, limit=limit, name="workload", empty="Nothing waits.")
