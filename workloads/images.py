"""Names of images: whether one can be, and whether a team's rules allow it. Asks no registry."""

from fnmatch import fnmatchcase

from teams.image_names import full_name, full_pattern
from teams.models.policy import DIGEST
from teams.rules import EffectiveRules

MOST_LISTED = 10


def digest_of(image: str) -> str:
    """Return the digest that a name has; "" where it names a tag, or nothing."""
    return image.partition("@")[2]


def malformed(image: str) -> str:
    """Return why this is no name of an image; "" where it can be one."""
    name, at, digest = image.partition("@")
    if at and not DIGEST.fullmatch(digest):
        return (
            f"{image[:120]!r} has no digest that can be: after @ stands sha256: and 64 small hexadecimal digits, not "
            f"{digest[:80]!r}."
        )
    return f"{image[:120]!r} has a digest and no name before it." if at and not name else ""


def problem(image: str, rules: EffectiveRules, team: str) -> str:
    """Return why workloads of a team, called `team`, may not run an image; "" where they may."""
    if wrong := malformed(image):
        return wrong
    whole = full_name(image)
    if not any(fnmatchcase(whole, full_pattern(each)) for each in rules.images):
        return f"The rules of {team} allow the images {_listed(rules.images)}; {image[:120]} is none of them."
    if rules.digest_required and not digest_of(image):
        return (
            f"The rules of {team} allow images by digest only, and {image[:120]} names a tag: write "
            f"{image.rpartition(':')[0] if ':' in image.rpartition('/')[2] else image[:120]}@sha256:… in its place."
        )
    return ""


def _listed(patterns: tuple[str, ...]) -> str:
    if not patterns:
        return "none"
    more = f" and {len(patterns) - MOST_LISTED} more" if len(patterns) > MOST_LISTED else ""
    return ", ".join(patterns[:MOST_LISTED]) + more
