"""Passwords: how they are hashed, and which are refused because they are guessed too easily."""

from typing import TYPE_CHECKING, Any

from django.contrib.auth.hashers import Argon2PasswordHasher
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core.exceptions import ValidationError
from zxcvbn import zxcvbn

if TYPE_CHECKING:
    from chamber.models import User

LEAST_SCORE = 3
"""Of 0 to 4: about 10^8 guesses, what zxcvbn calls safely unguessable."""
JUDGED_CHARACTERS = 32
"""What follows makes a password only stronger; and zxcvbn takes 1.9 s of processor time for some 72, 0.4 s for 32."""
PARTS = ("username", "first_name", "last_name", "email")


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


class Guessable:
    """Refuses what zxcvbn finds easily guessed, for a stranger or for whoever knows the person's names."""

    def validate(self, password: str, user: "User | None" = None) -> None:
        """Raise a `ValidationError` that says why, and what helps."""
        known = ["chamber", *(str(getattr(user, part, "") or "") for part in PARTS)]
        found = zxcvbn(password[:JUDGED_CHARACTERS], user_inputs=[part for part in known if part])
        if found["score"] >= LEAST_SCORE:
            return
        advice = [found["feedback"]["warning"], *found["feedback"]["suggestions"]]
        sentences = " ".join(f"{each.rstrip('.')}." for each in advice if each)
        raise ValidationError(
            f"This password is guessed too easily: its strength is {found['score']} of 4, and {LEAST_SCORE} is needed."
            + (f" {sentences}" if sentences else ""),
            code="password_guessable",
        )

    def get_help_text(self) -> str:
        """Return what is asked for."""
        return "Not easily guessed: several uncommon words are better than one with signs."
