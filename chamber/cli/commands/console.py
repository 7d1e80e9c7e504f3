"""Commands of who has the server's console, where nobody signs in: `chamber reencrypt`, `chamber remove-factors`."""

import click

from chamber.cli.commands.serve import refusals
from chamber.cli.status import Exit, Failure
from chamber.words import count


@click.command()
def reencrypt() -> None:
    """Encrypt all stored secrets with the newest keys.

    Those are the first of CHAMBER_ENCRYPTION_KEYS and, for credentials, of CHAMBER_CREDENTIALS_KEY_FILE. It goes on
    where it was stopped. Older keys may be taken away once it says that nothing is left to do.
    """
    from chamber.serving import start

    with refusals():
        start.load()
    from chamber import encrypted

    by, unread = encrypted.By, []
    for noun, renew in (("secret", encrypted.renew), ("credential", encrypted.renew_credentials)):
        found = renew()
        if noun == "credential" and not found:
            continue
        old, new = (count(found[each], noun) for each in (by.OLDER, by.NEWEST))
        click.echo(f"{old} encrypted anew; {new} had the newest key already.")
        unread += [count(found[by.UNKNOWN], noun)] if found[by.UNKNOWN] else []
    if unread:
        raise Failure(f"{' and '.join(unread)} cannot be read: give the key that encrypted them as well.")


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
