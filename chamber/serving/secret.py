"""Whether the key that signs sessions is worth its name."""

LEAST_CHARACTERS = 32
LEAST_DIFFERENT = 10
FOR_DEVELOPMENT = "for-development-and-tests-only-" + "x" * 32


def weakness(key: str) -> str | None:
    """Return what is wrong with a secret key, as a sentence with what to do; None for a good one."""
    advice = (
        "Give 50 random characters in the file that CHAMBER_SECRET_KEY_FILE names, or in CHAMBER_SECRET_KEY."
    )
    if not key:
        return f"No secret key is given. {advice}"
    if key == FOR_DEVELOPMENT or key.startswith("django-insecure-"):
        return f"The secret key is one for development, which anybody can read. {advice}"
    if len(key) < LEAST_CHARACTERS:
        return f"The secret key has {len(key)} characters; the least is {LEAST_CHARACTERS}. {advice}"
    if len(set(key)) < LEAST_DIFFERENT:
        return f"The secret key has {len(set(key))} different characters; the least is {LEAST_DIFFERENT}. {advice}"
    return None
