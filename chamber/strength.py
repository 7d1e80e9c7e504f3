"""The meter beside a new password: what the judge that refuses one says of it while it is typed."""

from dataclasses import dataclass

from allauth.account.forms import UserTokenForm
from allauth.account.views import INTERNAL_RESET_SESSION_KEY
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.password_validation import get_default_password_validators
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST
from rest_framework.exceptions import Throttled

from chamber.authentication import bound_tries
from chamber.errors import NotAllowed
from chamber.models import User
from chamber.passwords import LEAST_SCORE, Guessable
from chamber.people.actions import find_link
from chamber.sessions import HELD_LINK

JUDGED_A_MINUTE = 60
"""For one person: judging takes a good part of a second."""
MOST_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Strength:
    """What a password scores, of 0 to 4, and why it is refused; at `LEAST_SCORE` or above only where it is not."""

    score: int
    problems: tuple[str, ...]


def strength_of(password: str, user: User) -> Strength:
    """Return how strong a password of somebody is, by all that would refuse it."""
    score, problems = 0, []
    for validator in get_default_password_validators():
        try:
            if isinstance(validator, Guessable):
                score = validator.judge(password, user)
            else:
                validator.validate(password, user)
        except ValidationError as error:
            problems += error.messages
            score = max(score, (getattr(error, "params", None) or {}).get("score", 0))
    return Strength(min(score, LEAST_SCORE - 1) if problems else score, tuple(problems))


@login_not_required
@require_POST
def strength(request: HttpRequest) -> HttpResponse:
    """Answer with the meter for the password that is typed; nothing of it is kept."""
    user, password = _whose(request), request.POST.get("password1", "")
    context: dict[str, object] = {"needed": LEAST_SCORE}
    try:
        bound_tries(request, "strength", most=JUDGED_A_MINUTE, of=str(user.pk), seconds=60)
    except Throttled:
        context["later"] = True
    else:
        if password:
            context["strength"] = strength_of(password[:MOST_CHARACTERS], user)
    return render(request, "account/_strength.html", context)


def _whose(request: HttpRequest) -> User:
    """Return whose password is typed: of a link or a mailed key that the session holds, else of who is signed in."""
    of = request.POST.get("of", "")
    if of == "link" and HELD_LINK in request.session:
        return find_link(str(request.session[HELD_LINK])).user
    if of == "reset" and INTERNAL_RESET_SESSION_KEY in request.session:
        key = request.session[INTERNAL_RESET_SESSION_KEY]
        form = UserTokenForm(data={"uidb36": request.POST.get("uidb36", ""), "key": key})
        if form.is_valid():
            found: User = form.reset_user
            return found
    if of == "own" and request.user.is_authenticated:
        return request.user
    raise NotAllowed("A password is judged for who is signed in, or has opened a link for a new one.")
