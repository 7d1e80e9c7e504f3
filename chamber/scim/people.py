"""People whom an identity provider makes, changes and takes away; each in a transaction that holds the tree."""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.db.models import QuerySet

from chamber.errors import Conflict, Refusal
from chamber.models import ProvisionedPerson, User
from chamber.names import forget_pending
from chamber.oidc.admission import free_name
from chamber.oidc.claims import Claims, names_of, plain_email
from chamber.oidc.providers import Provider
from chamber.people import actions as people
from chamber.people.reading import people as everybody
from chamber.scim.groups import settle
from teams import audit
from teams.actors import Actor

LONGEST = 255
MOST_CHARACTERS = 32_000
"""Of all that is told of one person."""
NAME_TAKEN = "This provider keeps somebody with the user name {name!r} here already."
EMAIL_TAKEN = (
    "There is an account with the e-mail address {email} already, and this provider may not take it over: "
    "link_by_email of its setting allows that."
)


@dataclass(frozen=True, slots=True)
class Told:
    """What a provider tells of somebody, as far as it matters here. `active` is None where it tells nothing of that."""

    user_name: str
    external_id: str
    name: str
    email: str
    active: bool | None
    values: dict[str, Any]

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Told":
        """Return it of a resource's JSON; refuse what is too long or cannot be stored."""
        text = json.dumps(values)
        if len(text) > MOST_CHARACTERS:
            raise Refusal(f"A person has {len(text):,} characters; at most {MOST_CHARACTERS:,} are allowed.")
        if "\\u0000" in text:
            raise Refusal("A value has the character U+0000, which cannot be stored.")
        name = values.get("name") or {}
        shown = {
            "given_name": name.get("givenName"),
            "family_name": name.get("familyName"),
            "name": values.get("displayName") or name.get("formatted"),
        }
        return cls(
            user_name=short(values.get("userName"), "userName"),
            external_id=short(values.get("externalId"), "externalId"),
            name=" ".join(names_of(shown)).strip(),
            email=_email(values.get("emails") or []),
            active=values.get("active"),
            values=values,
        )


def short(value: Any, what: str) -> str:
    """Return a text that can be stored; refuse one that is too long or cannot be seen."""
    text = str(value or "")
    if len(text) > LONGEST or not text.isprintable():
        raise Refusal(f"{what} is {text[:80]!r}; up to {LONGEST} characters that can be seen are allowed.")
    return text


def make(provider: Provider, told: Told) -> ProvisionedPerson:
    """Take in somebody: their account is made, or found; one who was deleted before is the same as then."""
    if _kept(provider).filter(user_name__iexact=told.user_name, is_deleted=False).exists():
        raise Conflict(NAME_TAKEN.format(name=told.user_name))
    row = _deleted(provider, told)
    if row is None:
        user = _holder(provider, told)
        found = _kept(provider).filter(user=user).first() if user else None
        if found is not None and not found.is_deleted:
            raise Conflict(f"{user} is kept here as {found.user_name!r} already.")
        row = found or ProvisionedPerson(provider=provider.id, user=user or _made(provider, told))
    row.is_deleted = False
    _store(row, told)
    _apply(provider, row, told, before=None)
    return row


def change(provider: Provider, row: ProvisionedPerson, told: Told) -> ProvisionedPerson:
    """Make what a provider tells of somebody the case."""
    others = _kept(provider).filter(user_name__iexact=told.user_name, is_deleted=False).exclude(pk=row.pk)
    if others.exists():
        raise Conflict(NAME_TAKEN.format(name=told.user_name))
    before = Told.of(row.told)
    _store(row, told)
    _apply(provider, row, told, before=before)
    return row


def remove(provider: Provider, row: ProvisionedPerson) -> None:
    """Disable the account of somebody whom a provider deletes; accounts are never deleted."""
    _put_out(provider, row)
    row.is_deleted = True
    row.save()
    row.groups.clear()
    settle(provider, [row.user])


def _store(row: ProvisionedPerson, told: Told) -> None:
    row.user_name, row.external_id, row.told = told.user_name, told.external_id, told.values
    row.save()


def _apply(provider: Provider, row: ProvisionedPerson, told: Told, *, before: Told | None) -> None:
    if told.active is False:
        _put_out(provider, row)
        with suppress(Refusal):  # whoever leaves is put out, whatever else is wrong
            _rename(provider, row, told, before)
        settle(provider, [row.user])
        return
    _rename(provider, row, told, before)
    if row.put_out and (told.active or before is None):
        row.user.refresh_from_db()
        if not row.user.is_active:
            row.user = people.enable(by=actor_of(provider), user=row.user)
        row.put_out = False
        row.save()
    settle(provider, [row.user])


def _rename(provider: Provider, row: ProvisionedPerson, told: Told, before: Told | None) -> None:
    """Change name and address of an account as far as they are told otherwise than before."""
    if before is None:
        return
    name = told.name if told.name != before.name else None
    email = told.email if told.email != before.email else None
    if name is not None or email is not None:
        row.user = people.change(by=actor_of(provider), user=row.user, name=name, email=email)


def _put_out(provider: Provider, row: ProvisionedPerson) -> None:
    row.user.refresh_from_db()
    if row.user.is_active:
        people.disable(by=actor_of(provider), user=row.user)
        row.user.refresh_from_db()
        row.put_out = True
        row.save()


def _deleted(provider: Provider, told: Told) -> ProvisionedPerson | None:
    """Return who was deleted before and is told of again."""
    rows = _kept(provider).filter(is_deleted=True).order_by("-changed_at")
    by_id = rows.filter(external_id=told.external_id).first() if told.external_id else None
    by_name = rows.filter(user_name__iexact=told.user_name, external_id="").first()
    return by_id or by_name


def _holder(provider: Provider, told: Told) -> User | None:
    """Return whose account it is already: who signed in by the provider, or has the address, where that is allowed."""
    accounts = SocialAccount.objects.select_related("user").filter(provider=provider.id)
    if told.external_id:
        account = accounts.filter(uid=Claims(subject=told.external_id).key).first()
        if account is not None:
            return account.user  # type: ignore[no-any-return]  # allauth's
    holder = everybody().filter(email=told.email).first() if told.email else None
    if holder is None:
        return None
    account = accounts.filter(user=holder).first()
    is_theirs = account is not None and account.extra_data.get("email") == told.email
    if not is_theirs and (account is not None or not provider.link_by_email):
        raise Conflict(EMAIL_TAKEN.format(email=told.email))
    if account is None:
        holder.end_links()
        forget_pending(holder)
        audit.record(
            by=actor_of(provider), action="person.linked", target=holder, after={"provider": provider.id}
        )
    return holder


def _made(provider: Provider, told: Told) -> User:
    first, last = names_of({"name": told.name})
    user = User(username=free_name(told.user_name), first_name=first, last_name=last, email=told.email)
    user.set_unusable_password()
    user.save()
    after = {"username": user.username, "email": user.email, "provider": provider.id}
    audit.record(by=actor_of(provider), action="person.made", target=user, after=after)
    return user


def _email(emails: list[dict[str, Any]]) -> str:
    """Return the address that counts: the primary one, else that of work, else the first that is one."""
    ranked = sorted(emails, key=lambda each: (not each.get("primary"), each.get("type") != "work"))
    return next((found for each in ranked if (found := plain_email(each.get("value")))), "")


def _kept(provider: Provider) -> "QuerySet[ProvisionedPerson]":
    return ProvisionedPerson.objects.select_related("user").filter(provider=provider.id)


def actor_of(provider: Provider) -> Actor:
    """Return a provider as the trail names it."""
    return Actor.system(f"provider {provider.id}")
