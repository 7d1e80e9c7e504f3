"""`chamber login`, `logout`, `whoami`."""

import socket
import sys
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from chamber.cli import config
from chamber.cli.client import Client, Json, connect, segment
from chamber.cli.output import Column, OutputFormat, ago, output_option, show_one
from chamber.cli.scopes import SCOPES, reach
from chamber.cli.status import Exit, Failure
from chamber.cli.trust import trust
from chamber.words import count

NEEDS_FACTOR = "second-factor"
"""The code of the refusal of who has to send one as well."""
OF_PASSWORD = ("username", "password_stdin", "code", "scope", "days", "team")
"""Options of a sign-in by password, by which a token is made."""


@click.command()
@click.option("--url", help="Address of the server; else CHAMBER_URL, else the last one signed in to.")
@click.option("--username", help="User name; asked for where it is not given.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option(
    "--with-token",
    is_flag=True,
    help="Keep a token that you made on the page Access tokens, as people do who sign in by an identity provider; "
    "asked for, or read from standard input.",
)
@click.option(
    "--code",
    default="",
    help="Of your authenticator app, or a recovery code; asked for where you have a second factor.",
)
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    help="What the token may be used for.  [default: all that you may do]",
)
@click.option(
    "--days", type=click.IntRange(1, 365), default=90, show_default=True, help="How long it is valid."
)
@click.option("--team", help="Reach only this team and the teams below it.")
@click.option(
    "--ca",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the certificate of the authority that signed the server's, where it is one of your own; else "
    "CHAMBER_CA. It is kept with the token.",
)
def login(
    url: str | None,
    username: str | None,
    *,
    password_stdin: bool,
    with_token: bool,
    code: str,
    scope: str | None,
    days: int,
    team: str | None,
    ca: Path | None,
) -> None:
    """Sign in to a server and keep a token for it.

    The password is not kept. The token lies in $XDG_CONFIG_HOME/chamber/config.json, readable by you only.
    """
    address = config.server(url)
    authority = config.authority(ca, address)
    trust(authority)  # a file that is none is refused before somebody types a password
    if with_token:
        _tell_ignored()
        _keep_token(config.StoredLogin(address, ca=authority))
        return
    name = username or click.prompt("User name", err=True)
    if password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = click.prompt("Password", hide_input=True, err=True)
    body: Json = {"username": name, "password": password, "expires_in_days": days}
    body["name"] = f"chamber login on {socket.gethostname()}"[:80]
    # What is not said, older servers know as well.
    body |= {key: value for key, value in (("scope", scope), ("team", team), ("code", code)) if value}
    with connect(config.StoredLogin(address, ca=authority)) as client:
        made = _signed_in(client, body, asks=not (code or password_stdin))
    config.keep(config.StoredLogin(address, made["token"], made["id"], name, authority))
    click.echo(f"Signed in to {address} as {name}; the token is valid for {count(days, 'day')}.")


def _signed_in(client: Client, body: Json, *, asks: bool) -> Json:
    """Return the token; ask for a code where one is needed, and again while it is wrong."""
    while True:
        try:
            made: Json = client.post("login/", body)
        except Failure as failure:
            if failure.code != NEEDS_FACTOR:
                raise _with_hint(failure, client.login.url) from failure
            tried = "code" in body
            if not asks:
                raise failure if tried else failure.with_hint("Give it as --code.") from failure
            if tried:
                click.echo(failure.message, err=True)
            body["code"] = click.prompt("Code of your second factor, or a recovery code", err=True)
        else:
            return made


def _with_hint(failure: Failure, address: str) -> Failure:
    """Return the failure, and to whom the password may never have been given the other way."""
    if failure.http_status != 401:
        return failure
    return failure.with_hint(
        f"Who signs in by an identity provider makes a token on {address}/tokens/ and keeps it by `chamber login "
        "--with-token`."
    )


def _tell_ignored() -> None:
    """Say which options were given that mean nothing for a token that was made elsewhere."""
    context = click.get_current_context()
    given = [
        f"--{name.replace('_', '-')}"
        for name in OF_PASSWORD
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if given:
        click.echo(f"Ignored with --with-token, whose token has them already: {', '.join(given)}.", err=True)


def _keep_token(login: config.StoredLogin) -> None:
    """Keep a token that was made elsewhere, once the server takes it."""
    if sys.stdin.isatty():
        token = click.prompt("Token", hide_input=True, err=True).strip()
    else:
        token = sys.stdin.readline().strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise Failure("This is no token: it begins with chb_, or chs_ for a service account.", Exit.USAGE)
    login = replace(login, token=token)
    with connect(login) as client:
        me: Json = client.get("me/")
    config.keep(replace(login, token_id=me["token"]["id"], username=me["username"]))
    click.echo(f"Signed in to {login.url} as {me['username']} with the token {me['token']['name']}.")


@click.command()
def logout() -> None:
    """Revoke the kept token and forget it."""
    login = config.kept()
    if login is None or not login.token:
        click.echo("You were not signed in.")
        return
    try:
        with connect(login) as client:
            client.delete(f"tokens/{segment(login.token_id)}/")
    except Failure as error:
        click.echo(f"The token is forgotten here, but was not revoked: {error.message}", err=True)
    config.forget()
    click.echo(f"Signed out of {login.url}.")


WHOAMI = [
    Column("User", lambda me: me["username"]),
    Column("Name", lambda me: me["name"]),
    Column("Email", lambda me: me["email"]),
    Column("Server", lambda me: me["server"]),
    Column("Token", lambda me: me["token"] and f"{me['token']['name']}, {reach(me['token'])}"),
    Column("Expires", lambda me: me["token"] and ago(me["token"]["expires_at"])),
    Column("Second factor", lambda me: me.get("second_factor_due") and f"due {ago(me['second_factor_due'])}"),
    Column("Roles", lambda me: [f"{given['role']} of {given['team']}" for given in me["roles"]] or "none"),
]


@click.command()
@output_option
def whoami(form: OutputFormat) -> None:
    """Show who you are, and your roles."""
    with connect() as client:
        me = {**client.get("me/"), "server": client.login.url}
    show_one(me, form, WHOAMI, name="username")
