"""Setting what the organisation asks of whoever signs in."""

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from chamber import live
from chamber.errors import Conflict, NotAllowed, Refusal, StaleVersion
from teams import audit, sign_in
from teams.actors import Actor
from teams.models import SignInPolicy, Team
from teams.models.sign_in import LONGEST_GRACE_DAYS
from teams.permissions import Permission, acting_now, may_anywhere
from teams.picture import lock_tree


def require_second_factor(*, by: Actor, version: int, required: bool, grace_days: int) -> SignInPolicy:
    """Say whether everybody needs a second factor, and for how many days after that began they are only told.

    `version` is that of the policy, 0 where there is none yet. Days that are changed count from when it began.
    """
    if not 0 <= grace_days <= LONGEST_GRACE_DAYS:
        raise Refusal(
            f"{grace_days} days: people may be given 0 to {LONGEST_GRACE_DAYS} days to set one up.",
            field="grace_days",
        )
    with transaction.atomic():
        lock_tree()
        require_sign_in(by)
        root = Team.objects.filter(depth=0).first()
        if root is None:
            raise Conflict("There is no organisation yet: run `chamber setup`.")
        stored = SignInPolicy.objects.filter(team=root).first() or SignInPolicy(team=root, version=0)
        if version != stored.version:
            raise StaleVersion(
                "Somebody changed how people sign in since you read it. Look again and repeat your change."
            )
        before = _said(stored)
        since = (stored.required_since or timezone.now()) if required else None
        if stored.version and (since, grace_days) == (stored.required_since, stored.grace_days):
            return stored
        values = {"required_since": since, "grace_days": grace_days, "told_at": None}
        if stored.version:
            SignInPolicy.objects.filter(pk=root.pk).update(version=F("version") + 1, **values)
        else:
            SignInPolicy.objects.create(team=root, **values)
        now = SignInPolicy.objects.get(pk=root.pk)
        audit.record(
            by=by, action="organisation.sign-in-changed", target=now, before=before, after=_said(now)
        )
        sign_in.forget()
        transaction.on_commit(sign_in.forget)
        live.announce("teams")
    return now


def require_sign_in(by: Actor) -> None:
    """Refuse who does not manage accounts, as it is now: their role may be gone since the request began."""
    by = acting_now(by)
    if by.user is not None and not may_anywhere(by.user, Permission.MANAGE_PEOPLE):
        raise NotAllowed("How people sign in is changed by organisation admins.")


def _said(policy: SignInPolicy) -> dict[str, object]:
    required = policy.required_since is not None
    return {"second_factor_required": required, "grace_days": policy.grace_days if required else None}
