"""Numbers and times in sentences: counts whose noun agrees, times that say their date and zone where they must."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches

IRREGULAR = {"it": "them", "is": "are", "has": "have", "was": "were"}
ACRONYM = re.compile(r"\b(cpu|gpu)(s?)\b", re.IGNORECASE)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question that names the nearest of those that are known, to stand after a sentence; "" for none."""
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def plural(number: float, noun: str, several: str = "") -> str:
    """Return the noun as it stands after this number: `pod`, `pods`; `several` where an s does not make it so."""
    return noun if number == 1 else several or IRREGULAR.get(noun, f"{noun}s")


def count(number: int, noun: str, several: str = "") -> str:
    """Return a number with its noun: `1 pod`, `2 pods`, `1,200 pods`."""
    return f"{number:,} {plural(number, noun, several)}"


def code_in_words(code: str) -> str:
    """Return a code as a person reads it: `Waiting for GPUs`, `Waiting for CPU`."""
    words = code.replace("-", " ").capitalize()
    return ACRONYM.sub(lambda found: found[1].upper() + found[2], words)


def clock_time(moment: datetime, now: datetime | None = None) -> str:
    """Return a time as sentences name it: `14:02:10 UTC`, with its date where that is not today's."""
    told, today = moment.astimezone(UTC), (now or datetime.now(UTC)).astimezone(UTC).date()
    return f"{told:%H:%M:%S} UTC" if told.date() == today else f"{told:%Y-%m-%d %H:%M:%S} UTC"


def placed(place: str, sentence: str) -> str:
    """Return a sentence with the place it is about, also where it begins with the last part of it:
    `edits[0].order is 'x'; ...`."""
    name = sentence.partition(" ")[0]
    if not place:
        return sentence
    return place.removesuffix(name) + sentence if place.endswith(name) else f"{place}: {sentence}"
