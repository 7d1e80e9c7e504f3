"""Codes of a second factor: of an authenticator app, each once, and recovery codes, each once."""

from contextlib import suppress

from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.exceptions import Throttled

from chamber import encryption, sign_in_trail
from chamber.authentication import TRIES_PER_NAME, bound_tries
from chamber.models import User
from chamber.people import notices
from teams.actors import Via

KINDS = (Authenticator.Type.TOTP, Authenticator.Type.RECOVERY_CODES)
"""Factors whose codes are typed."""
USED = "used"
"""In what is stored of an app: the period of the last code that was taken. None before it is taken again."""
LONGEST = 32
DAY = 24 * 3600
WRONG_A_DAY = 50
"""Of one person: who knows the password finds a code of six digits by chance within a day once in 7,000 days."""


def try_code(
    request: HttpRequest, user: User, code: str, *, via: Via, signed_in: bool = False
) -> Authenticator | None:
    """Return the factor whose code this is, which is then used up; None for a wrong one, which the trail notes.

    Raises `Throttled` after too many tries for this person, and `Unreadable`. Whoever comes here knows the password.
    """
    whose = str(user.pk)
    bound_tries(request, "factor", most=TRIES_PER_NAME, of=whose)
    bound_tries(request, "wrong-factor", most=WRONG_A_DAY, of=whose, seconds=DAY, counts=False)
    found = use_code(user, code)
    if found is None:
        with suppress(Throttled):  # the next one is told
            bound_tries(request, "wrong-factor", most=WRONG_A_DAY, of=whose, seconds=DAY)
        sign_in_trail.factor_refused(user, via, signed_in=signed_in)
        if _is_used_up(user, code):
            notices.code_tried_again(request, user)
    elif found.type == Authenticator.Type.RECOVERY_CODES:
        found.refresh_from_db()
        notices.recovery_code_used(request, user, len(found.wrap().get_unused_codes()))
    return found


def use_code(user: User, code: str) -> Authenticator | None:
    """Use up a code; return the factor that it is of, or None where it is of none, or was used before."""
    if not code.strip() or len(code) > LONGEST:
        return None
    with transaction.atomic():
        rows = Authenticator.objects.select_for_update(no_key=True).filter(user=user.pk, type__in=KINDS)
        for row in rows.order_by("pk"):
            is_app = row.type == Authenticator.Type.TOTP
            if _use_of_app(row, code) if is_app else row.wrap().validate_code(code):
                Authenticator.objects.filter(pk=row.pk).update(last_used_at=timezone.now())
                return row
    return None


def _is_used_up(user: User, code: str) -> bool:
    """Return whether a refused code is one that the person's app shows now."""
    apps = Authenticator.objects.filter(user=user.pk, type=Authenticator.Type.TOTP)
    return any(period_of(encryption.decrypt(row.data["secret"]), code) is not None for row in apps)


def period_of(secret: str, code: str) -> int | None:
    """Return of which period of now a code of an app with this secret is; None where of none."""
    for period in yield_hotp_counters_from_time():
        if compare_user_code(actual=code, expected=format_hotp_value(hotp_value(secret, period))):
            return int(period)
    return None


def _use_of_app(row: Authenticator, code: str) -> bool:
    """Use up a code of an app whose row is locked; codes of earlier periods than the last used one are used up too."""
    period = period_of(encryption.decrypt(row.data["secret"]), code)
    if period is None or period <= row.data.get(USED, -1):
        return False
    row.data[USED] = period
    row.save(update_fields=["data"])
    return True
