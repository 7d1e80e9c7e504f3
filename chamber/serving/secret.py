"""Whether the keys that sign sessions and the audit trail are worth their name."""

from collections.abc import Sequence

LEAST_CHARACTERS = 32
LEAST_DIFFERENT = 10
FOR_DEVELOPMENT = "for-development-and-tests-only-" + "x" * 32


def weakness(key: str, *, name: str = "secret key", setting: str = "CHAMBER_SECRET_KEY") -> str | None:
    """Return what is wrong with a key, as a sentence with what to do; None for a good one."""
    advice = f"Give 50 random characters in the file that {setting}_FILE names, or in {setting}."
    if not key:
        return f"No {name} is given. {advice}"
    if key == FOR_DEVELOPMENT or key.startswith("django-insecure-"):
        return f"The {name} is one for development, which anybody can read. {advice}"
    if len(key) < LEAST_CHARACTERS:
        return f"The {name} has {len(key)} characters; the least is {LEAST_CHARACTERS}. {advice}"
    if len(set(key)) < LEAST_DIFFERENT:
        return (
            f"The {name} has {len(set(key))} different characters; the least is {LEAST_DIFFERENT}. {advice}"
        )
    return None


def audit_weakness(key: str, before: Sequence[str] = ()) -> str | None:
    """Return what is wrong with the audit key, or with one of those before; None for good ones.

    There may be none: the secret key signs then.
    """
    found = weakness(key, name="audit key", setting="CHAMBER_AUDIT_KEY") if key else None
    if found:
        return f"{found} Name the present one in CHAMBER_AUDIT_KEYS_BEFORE."
    for place, each in enumerate(before, start=1):
        if found := weakness(each, name=f"key {place} of CHAMBER_AUDIT_KEYS_BEFORE"):
            sentence, _, _ = found.partition(". ")
            return (
                f"{sentence}. Whoever guesses it signs rows as Chamber: leave it out, and accept the rows that it "
                "signed by chamber audit accept."
            )
    return None
