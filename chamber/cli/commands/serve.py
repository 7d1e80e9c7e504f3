"""Commands of a deployment: `serve`, `worker`, `beat`, `migrate`, `setup`; what they run is imported when they run."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from chamber.cli.status import Exit, Failure
from chamber.words import count

_GRACE = click.option(
    "--grace",
    "grace_seconds",
    type=click.IntRange(1, 3600),
    default=20,
    show_default=True,
    envvar="CHAMBER_GRACE_SECONDS",
    show_envvar=True,
    help="Seconds within which what is under way may be finished after SIGTERM.",
)


@contextmanager
def refusals() -> Iterator[None]:
    """Show what prevents a start as one sentence with its exit status."""
    from chamber.serving.start import CannotStart

    try:
        yield
    except CannotStart as error:
        raise Failure(str(error), Exit(error.status)) from error


@click.command()
@click.option(
    "--part",
    type=click.Choice(["web", "live", "all"]),
    default="all",
    show_default=True,
    help="web: pages and API. live: sockets, long polls and event streams. all: everything in one process.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="CHAMBER_LISTEN_HOST",
    show_envvar=True,
    help="Address to listen on.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8000,
    show_default=True,
    envvar="CHAMBER_LISTEN_PORT",
    show_envvar=True,
    help="Port to listen on.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    envvar="CHAMBER_WEB_WORKERS",
    show_envvar=True,
    help="Processes of the web part, eight threads each.",
)
@_GRACE
def serve(part: str, host: str, port: int, workers: int, grace_seconds: int) -> None:
    """Serve pages, API and sockets until SIGTERM. TLS is the work of a proxy in front."""
    from chamber.serving import start

    with refusals(), start.listen(host, port) as listener:
        start.prepare(shares_work=part != "all", host=host)
        start.load_pages()
        if part == "web":
            from chamber.serving import web

            web.serve(listener, workers=workers, grace_seconds=grace_seconds)
        else:
            from chamber.serving import live

            live.serve(listener, part=part, grace_seconds=grace_seconds)


@click.command()
@click.option(
    "--queue",
    type=click.Choice(["scheduling", "duties"]),
    required=True,
    help="scheduling: run the cycles. duties: everything else that recurs.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    envvar="CHAMBER_WORKER_THREADS",
    show_envvar=True,
    help="Threads for duties; cycles run one at a time.",
)
@_GRACE
def worker(queue: str, concurrency: int, grace_seconds: int) -> None:
    """Work off one of the queues until SIGTERM."""
    from chamber.serving import start

    with refusals():
        start.prepare(shares_work=True)
    from chamber.serving.worker import run

    sys.exit(run(queue=queue, concurrency=concurrency, grace_seconds=grace_seconds))


@click.command()
@_GRACE
def beat(grace_seconds: int) -> None:
    """Send each duty at its interval until SIGTERM."""
    from chamber.serving import start

    with refusals():
        start.prepare(shares_work=True)
    from chamber.serving.beat import run

    sys.exit(run(grace_seconds=grace_seconds))


@click.command()
@click.option(
    "--wait",
    "wait_seconds",
    type=click.IntRange(0, 3600),
    default=0,
    show_default=True,
    help="Seconds to wait for the database to answer.",
)
def migrate(wait_seconds: int) -> None:
    """Bring the database up to date with this version, and exit."""
    from chamber.serving import start

    with refusals():
        start.load()
        from chamber.serving import database

        applied = database.migrate(wait_seconds=wait_seconds)
    click.echo(f"Applied {count(len(applied), 'migration')}." if applied else "The database is up to date.")


@click.command()
@click.option("--organisation", help="Name of the organisation; asked for where it is not given.")
@click.option("--username", help="User name of its first admin; asked for where it is not given.")
@click.option("--email", default="", help="The admin's address.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
def setup(organisation: str | None, username: str | None, email: str, password_stdin: bool) -> None:
    """Make the organisation and its first admin in a new database."""
    from chamber.serving import start

    with refusals():
        start.load()
        from chamber.serving import database

        database.require_new()  # before anybody is asked
    values: dict[str, Any] = {
        "organisation": organisation or click.prompt("Name of the organisation"),
        "username": username or click.prompt("User name of its first admin"),
        "email": email,
        "password": sys.stdin.readline().rstrip("\r\n")
        if password_stdin
        else click.prompt("Password", hide_input=True, confirmation_prompt=True),
    }
    with refusals():
        team = database.set_up(**values)
    click.echo(f"Made {team.name}; {values['username']} is its admin.")
