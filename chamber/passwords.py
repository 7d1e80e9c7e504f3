"""Passwords: how they are hashed, and which are refused because they are guessed too easily."""

import re
from typing import TYPE_CHECKING, Any

from django.contrib.auth.hashers import Argon2PasswordHasher
from django.contrib.auth.password_validation import UserAttributeSimilarityValidator
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core.exceptions import ValidationError
from django.db.models import Q
from zxcvbn import zxcvbn

from chamber.words import count, plural
from teams.models import Team

if TYPE_CHECKING:
    from chamber.models import User

LEAST_SCORE = 3
"""Of 0 to 4: about 10^8 guesses, what zxcvbn calls safely unguessable."""
JUDGED_CHARACTERS = 32
"""What follows makes a password only stronger; and zxcvbn takes 1.9 s of processor time for some 72, 0.4 s for 32."""
LEAST_OWN = 8
"""Letters and digits that are no part of a known name."""
SHORTEST_NAME = 3
NAMES = re.compile(r"[\W_]+")
"""What stands between the words of names."""
LONGEST = 128
"""Of a new password. One that was set before it was bounded signs in still."""
PARTS = ("username", "first_name", "last_name", "email", "organisation")
"""`organisation` is known of the first admin alone, who is made with it."""


class Argon2(Argon2PasswordHasher):
    """Argon2id with 46 MiB, two passes and one lane, above what OWASP asks for.

    Django's own default takes 100 MiB and eight threads, and a process of Chamber may compare three at once.
    """

    memory_cost = 46 * 1024
    time_cost = 2
    parallelism = 1


class ResetKeys(PasswordResetTokenGenerator):
    """Makes the keys of mailed links for a new password.

    One ends with a new password, address or sign-in, and with whatever ends all sessions: being disabled, for one.
    """

    def _make_hash_value(self, user: Any, timestamp: int) -> str:
        return f"{super()._make_hash_value(user, timestamp)}#{user.session_generation}"


class Similar(UserAttributeSimilarityValidator):
    """Refuses what is much like the person's names or address; people give one name, which is stored in two parts."""

    def validate(self, password: str, user: "User | None" = None) -> None:
        """Raise a `ValidationError` that names what it is like."""
        try:
            super().validate(password, user=user)
        except ValidationError as error:
            if error.params and error.params.get("verbose_name") in {"first name", "last name"}:
                error.params["verbose_name"] = "name"
            raise


def _names_around(user: "User | None") -> set[str]:
    """Return the words of the names of the organisation and of a person's teams (one query)."""
    own = Q(bindings__user=user) if user is not None and user.pk and not user._state.adding else Q(pk__in=())
    names = Team.objects.filter(Q(depth=0) | own).values_list("name", "slug")
    return {word.casefold() for each in names for word in NAMES.split(" ".join(each))}


def _without(names: set[str], text: str) -> str:
    for name in sorted(names, key=len, reverse=True):
        if len(name) >= SHORTEST_NAME:
            text = text.replace(name.casefold(), "")
    return text


class TooLong:
    """Refuses a new password that is longer than any that is remembered or made by a program."""

    def validate(self, password: str, user: "User | None" = None) -> None:  # noqa: ARG002 - Django's signature
        """Raise a `ValidationError` that says how long it is."""
        if len(password) > LONGEST:
            raise ValidationError(
                f"This password has {len(password)} characters; at most {LONGEST} are allowed.",
                code="password_too_long",
            )

    def get_help_text(self) -> str:
        """Return what is asked for."""
        return f"At most {LONGEST} characters."


class Guessable:
    """Refuses what zxcvbn finds easily guessed, for a stranger or for whoever knows the person's names."""

    def validate(self, password: str, user: "User | None" = None) -> None:
        """Raise a `ValidationError` that says why, and what helps."""
        self.judge(password, user)

    def judge(self, password: str, user: "User | None" = None) -> int:
        """Return how strong it is, `LEAST_SCORE` or 4; raise a `ValidationError` that says why it is less."""
        known = {"chamber", *NAMES.split(" ".join(str(getattr(user, part, "") or "") for part in PARTS))}
        known |= _names_around(user)
        own = NAMES.sub("", _without(known, password.casefold()))
        if len(own) < LEAST_OWN:
            raise ValidationError(
                f"Without the names of yourself, your teams and this server, {count(len(own), 'character')} of the "
                f"password {plural(len(own), 'is', 'are')} left; at least {LEAST_OWN} letters and digits are needed.",
                code="password_of_names",
            )
        found = zxcvbn(password[:JUDGED_CHARACTERS], user_inputs=sorted(filter(None, known)))
        score = int(found["score"])
        if score >= LEAST_SCORE:
            return score
        advice = [found["feedback"]["warning"], *found["feedback"]["suggestions"]]
        sentences = " ".join(f"{each.rstrip('.')}." for each in advice if each)
        raise ValidationError(
            f"This password is guessed too easily: its strength is {score} of 4, and {LEAST_SCORE} is needed."
            + (f" {sentences}" if sentences else ""),
            code="password_guessable",
            params={"score": score},
        )

    def get_help_text(self) -> str:
        """Return what is asked for."""
        return "Not easily guessed: several uncommon words are better than one with signs."
