"""Commands of who has the server's console, where nobody signs in: `chamber reencrypt`, `chamber remove-factors`."""

import click

from chamber.cli.commands.serve import refusals
from chamber.cli.status import Exit, Failure
from chamber.words import count


@click.command()
def reencrypt() -> None:
    """Encrypt all stored secrets with the newest key of CHAMBER_ENCRYPTION_KEYS.

    Older keys may be taken away once it says that nothing is left to do.
    """
    from chamber.serving import start

    with refusals():
        start.load()
    from chamber import encrypted

    found, by = encrypted.renew(), encrypted.By
    old, new = (count(found[each], "secret") for each in (by.OLDER, by.NEWEST))
    click.echo(f"{old} encrypted anew; {new} had the newest key already.")
    if lost := found[by.UNKNOWN]:
        raise Failure(f"{count(lost, 'secret')} cannot be read: give the key that encrypted them as well.")


@click.command()
@click.argument("username")
def remove_factors(username: str) -> None:
    """Remove somebody's second factors and end their sessions, from the server's console.

    For the organisation admin whom nobody else can let in; others ask one, who has `chamber people factors`.
    """
    from chamber.serving import start

    with refusals():
        start.load()
    from chamber.errors import Refusal
    from chamber.factors import actions
    from chamber.people import notices
    from chamber.people.reading import people
    from teams.actors import Actor

    user = people().filter(username=username).first()
    if user is None:
        raise Failure(f"There is no account {username!r}.", Exit.NOT_FOUND)
    try:
        removed = actions.reset(by=Actor.system("console"), user=user)
    except Refusal as refusal:
        raise Failure(refusal.message, Exit.CONFLICT) from refusal
    click.echo(f"{count(removed, 'second factor')} of {username} removed; all sessions are ended.")
    told = notices.from_console(user, *actions.told_of_reset(removed, "Who has the server's console"))
    if told is False:
        click.echo(f"{username} could not be told by mail; the log says why.", err=True)
