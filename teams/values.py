"""What single values of a team or a share may be. A check returns sentences by field and raises nothing."""

import re
from typing import TypedDict

from chamber.words import count

MAX_NAME = 100
MAX_SLUG = 60
MAX_MILLI = 1_000_000_000
"""A million GPUs: more is a slip of the keyboard."""
MAX_PERCENT = 1_000_000
MAX_DEPTH = 32
"""Levels of the tree; a path has room for as many ids."""
WEIGHTS = range(1, 11)
TAKEN_BY_URLS = frozenset({"new", "edit", "pools", "figures"})

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class TeamChanges(TypedDict, total=False):
    """What may be changed of a team in place; absent keys stay as they are."""

    name: str
    slug: str
    bursting_priority: int
    burst_limit_percent: int | None
    maximum_milli: int | None


class ShareChanges(TypedDict, total=False):
    """What may be changed of a team's share of a pool; absent keys stay as they are."""

    reservation_milli: int
    maximum_milli: int | None


def gpus(milli: int) -> str:
    """Return milli-GPUs for a sentence: "1.5 GPUs", "1 GPU"."""
    whole, rest = divmod(milli, 1000)
    number = f"{whole:,}" + (f".{rest:03d}".rstrip("0") if rest else "")
    return f"{number} GPU" if milli == 1000 else f"{number} GPUs"


def devices_text(whole: int, slices: int, slices_milli: int) -> str:
    """Return GPUs and slices of GPUs, which are none: "24 GPUs and 9 slices worth 1.859 GPUs", "4 GPUs"."""
    return amount_text(whole * 1000 + slices_milli, slices, slices_milli)


def amount_text(milli: int, slices: int, slices_milli: int) -> str:
    """Return an amount of GPUs, of which so much is slices, as :func:`devices_text` does: "0.5 GPUs and 1 slice worth
    0.143 GPUs"."""
    if not slices:
        return gpus(milli)
    cut = f"{count(slices, 'slice')} worth {gpus(slices_milli)}"
    return f"{gpus(milli - slices_milli)} and {cut}" if milli > slices_milli else cut


def team_problems(changes: TeamChanges) -> dict[str, str]:
    """Return a sentence for each value of a team that cannot be."""
    found = {}
    if "name" in changes and not 1 <= len(changes["name"].strip()) <= MAX_NAME:
        found["name"] = f"A name has 1 to {MAX_NAME} characters, not {len(changes['name'].strip())}."
    if "slug" in changes and (problem := slug_problem(changes["slug"])):
        found["slug"] = problem
    weight = changes.get("bursting_priority", 1)
    if weight not in WEIGHTS:
        found["bursting_priority"] = f"A bursting priority is a whole number from 1 to 10, not {weight}."
    percent = changes.get("burst_limit_percent")
    if percent is not None and not 0 <= percent <= MAX_PERCENT:
        found["burst_limit_percent"] = (
            f"A burst limit is from 0 (no bursting) to {MAX_PERCENT:,} %, or empty for none; not {percent} %."
        )
    return found | _milli_problem("maximum", "A maximum", changes.get("maximum_milli"))


def share_problems(changes: ShareChanges) -> dict[str, str]:
    """Return a sentence for each value of a share that cannot be."""
    reservation = changes.get("reservation_milli", 0)
    return _milli_problem("reservation", "A reservation", reservation) | _milli_problem(
        "maximum", "A maximum", changes.get("maximum_milli")
    )


def slug_problem(slug: str) -> str | None:
    """Return why `slug` cannot stand in an address; None where it can."""
    if not _SLUG.fullmatch(slug) or len(slug) > MAX_SLUG:
        return (
            f"A short name has 1 to {MAX_SLUG} small letters, digits and single hyphens; {slug!r} does not."
        )
    if slug in TAKEN_BY_URLS:
        return f"{slug!r} is the address of a page; choose another short name."
    return None


def _milli_problem(field: str, what: str, milli: int | None) -> dict[str, str]:
    if milli is None or 0 <= milli <= MAX_MILLI:
        return {}
    shown = f"-{gpus(-milli)}" if milli < 0 else gpus(milli)
    return {field: f"{what} is from 0 to {gpus(MAX_MILLI)}, not {shown}."}
