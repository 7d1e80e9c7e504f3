"""Rows of the audit trail about signing in: what no action of another room writes."""

from chamber.metrics import sign_ins
from chamber.metrics.sign_ins import RefusedBy
from chamber.models import ApiToken, User
from teams import audit
from teams.actors import Actor, Via


def signed_in(user: User, via: Via, *, factor: str = "", provider: str = "") -> None:
    """Note that somebody began a session, or got a token for their password; by which second factor and provider."""
    told = {"factor": factor, "provider": provider}
    after = {key: value for key, value in told.items() if value}
    audit.record(by=Actor.person(user, via), action="person.signed-in", target=user, after=after)


def sign_in_failed(user: User | None, via: Via) -> None:
    """Note a wrong password for an account; of a name that nobody has, only that it was one.

    What was typed there is kept nowhere: it may be a password.
    """
    sign_ins.refused(RefusedBy.PASSWORD)
    audit.record(by=Actor.nobody(via), action="person.sign-in-failed", target=user or _no_account())


def provider_refused(provider: str, via: Via) -> None:
    """Note that a sign-in by a provider came to nothing: nobody is known."""
    sign_ins.refused(RefusedBy.PROVIDER)
    after = {"provider": provider}
    audit.record(by=Actor.nobody(via), action="person.sign-in-failed", target=_no_account(), after=after)


def factor_refused(user: User | None, via: Via, *, signed_in: bool = False) -> None:
    """Note a wrong code, or a passkey that was not taken: of who signs in, or is signed in and has to show it again."""
    sign_ins.refused(RefusedBy.FACTOR)
    by = Actor.person(user, via) if user is not None and signed_in else Actor.nobody(via)
    audit.record(by=by, action="person.factor-refused", target=user or _no_account())


def confirmed(user: User, by: str) -> None:
    """Note that who is signed in showed again that it is them, and by what."""
    audit.record(by=Actor.person(user, Via.PAGE), action="person.confirmed", target=user, after={"by": by})


def reset_asked(user: User | None) -> None:
    """Note that somebody asked for a mailed link for a new password; of an address to which none goes, only that."""
    audit.record(by=Actor.nobody(Via.PAGE), action="person.reset-asked", target=user or _no_account())


def address_asked(user: User, email: str) -> None:
    """Note that somebody wants another e-mail address, which counts once it is confirmed."""
    by = Actor.person(user, Via.PAGE)
    audit.record(by=by, action="person.address-asked", target=user, after={"email": email})


def _no_account() -> User:
    return User(id=None, username="(no such account)")


def signed_out(user: User) -> None:
    """Note that somebody ended their session."""
    audit.record(by=Actor.person(user, Via.PAGE), action="person.signed-out", target=user)


def password_changed(user: User, *, tokens: int | None) -> None:
    """Note a new password: changed by who was signed in, or set by who had a link, which revoked so many tokens."""
    by = Actor.person(user, Via.PAGE)
    if tokens is None:
        audit.record(by=by, action="person.password-changed", target=user)
    else:
        audit.record(by=by, action="person.password-reset", target=user, after={"tokens": tokens})


def tokens_revoked(user: User, tokens: int) -> None:
    """Note that somebody revoked all tokens of theirs."""
    audit.record(
        by=Actor.person(user, Via.PAGE), action="person.tokens-revoked", target=user, after={"tokens": tokens}
    )


def password_refused(user: User) -> None:
    """Note that who is signed in gave a wrong present password, in order to change it or the address."""
    audit.record(by=Actor.person(user, Via.PAGE), action="person.password-refused", target=user)


def address_confirmed(user: User, email: str) -> None:
    """Note that somebody showed that an e-mail address is theirs."""
    audit.record(
        by=Actor.person(user, Via.PAGE),
        action="person.address-confirmed",
        target=user,
        after={"email": email},
    )


def token_made(token: ApiToken, via: Via) -> None:
    """Note a new token, by its name, and what it may do where and until when."""
    after = {"name": token.name, "scope": token.scope, "expires_at": str(token.expires_at)}
    if token.team is not None:
        after["team"] = token.team.slug
    audit.record(by=Actor.person(token.user, via), action="token.created", target=token, after=after)


def token_revoked(token: ApiToken, via: Via) -> None:
    """Note that a token is of no use any more."""
    audit.record(by=Actor.person(token.user, via), action="token.revoked", target=token)
