"""Numbers and times in sentences: counts whose noun agrees, times that say their date and zone where they must; and
what characters a name may have.
"""

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import pairwise

FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet takes a cell for a formula, whatever somebody named a team."""
IRREGULAR = {"it": "them", "is": "are", "has": "have", "was": "were"}
UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffd\U000e0100-\U000e01ef]"
)
"""Printable by category, but drawn as nothing: Unicode's Default_Ignorable_Code_Point, and the empty Braille cell; and
what stands for characters that were lost.
"""
LIKE_LATIN = dict(
    zip(
        "\u0430\u0410\u0412\u0441\u0421\u0435\u0415\u041d\u04bb\u0456\u0406\u0458\u0408\u041a\u043a\u04c0\u04cf\u041c"
        "\u043e\u041e\u0440\u0420\u051b\u0455\u0405\u0422\u0475\u0474\u051d\u051c\u0445\u0425\u0443\u0423\u04ae\u0501"
        "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd\u03b9\u03c1"
        "\u03c5\u03f2\u03f3\u0585\u0555\u057d\u054f\u053c\u0581\u0570\u0578\u0575\u0566\u13aa\u13f4\u13df\u13a0\u13ac"
        "\u13c0\u13bb\u13ab\u13e6\u13de\u13b7\u13e2\u13a1\u13da\u13a2\u13d9\u13b3\u13c3",
        "aABcCeEHhiIjJKkllMoOpPqsSTvVwWxXyYYdABEZHIKMNOPTYXovipucjoOuSLghnjqABCDEGHJKLMPRSTVWZ",
        strict=True,
    )
)
"""Letters of Cyrillic, Greek, Armenian and Cherokee that are drawn like a Latin one, and that one."""
DRAWN_AS = frozenset(
    {"font", "wide", "narrow", "compat", "initial", "medial", "final", "isolated", "noBreak"}
)
"""So Unicode marks characters that are drawn as others: in another font, width or place, or kept for old programs."""
TYPED = re.compile("[\u0e33\u0eb3\u0edc\u0edd\u2116\u3131-\u318e]")
"""Marked so, but what keyboards write: vowels and letters of Thai and Lao, letters of Hangul that stand alone, the
numero sign of Russian.
"""
SIGNS = "\u00aa\u00ba\u2122\u2120"
"""Raised letters that are signs of their own: the ordinals of Romance languages, of trade and service marks."""
MICRO, MU = "\u00b5", "\u03bc"
"""A sign that keyboards write, and the Greek letter that it is."""
MINUTE, HOUR, DAY = 60, 3600, 86400
LETTERS = re.compile(r"[^\W\d_]+")
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


def span(seconds: float) -> str:
    """Return a length of time in its two largest units, the second unless it is nothing: `2 h 05 min`, `10 min`."""
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        words, rest = f"{whole // MINUTE} min", f"{whole % MINUTE:02d} s"
    elif whole < DAY:
        words, rest = f"{whole // HOUR} h", f"{whole % HOUR // MINUTE:02d} min"
    else:
        words, rest = f"{whole // DAY} d", f"{whole % DAY // HOUR} h"
    return words if int(rest.split()[0]) == 0 else f"{words} {rest}"


def placed(place: str, sentence: str) -> str:
    """Return a sentence with the place it is about, also where it begins with the last part of it:
    `edits[0].order is 'x'; ...`."""
    name = sentence.partition(" ")[0]
    if not place:
        return sentence
    return place.removesuffix(name) + sentence if place.endswith(name) else f"{place}: {sentence}"


def as_cell(text: str) -> str:
    """Return a text as a cell of CSV: what a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{text}" if text.startswith(FORMULA_BEGINS) else text


def as_name(text: str) -> str:
    """Return a name as it is stored: composed (NFC), with single spaces, and none at its ends."""
    return " ".join(unicodedata.normalize("NFC", text).replace(MICRO, MU).split())


def unfit_for_name(name: str) -> str:
    """Return why a name could be taken for another, as a sentence; "" where it could not.

    Refused are characters that cannot be seen (controls, those that turn the direction of writing, those of no width),
    marks without a letter, other fonts and forms, and letters that look like Latin ones beside Latin ones.
    """
    if unseen := next((each for each in name if not each.isprintable() or UNSEEN.match(each)), ""):
        return f"The name contains the character {_code(unseen)}, which cannot be seen."
    marks = (mark for base, mark in pairwise(f" {name}") if base == " " and _is_mark(mark))
    if mark := next(marks, ""):
        return f"The name contains the mark {_code(mark)} without a letter before it."
    if drawn := next(filter(_is_drawn_as_another, name), ""):
        plain = unicodedata.normalize("NFKC", drawn)
        return (
            f"The name contains {drawn!r} ({_code(drawn)}), which looks like {plain!r}. Write that instead."
        )
    if other := _like_latin(name):
        return (
            f"The name contains {other!r} ({_code(other)}) beside Latin letters, where it looks like the Latin "
            f"{LIKE_LATIN[other]!r}. Use letters of one script."
        )
    return ""


def _is_drawn_as_another(character: str) -> bool:
    """Return whether a character looks like others: the same in another form, or a letter raised, lowered or framed."""
    form, _, _ = unicodedata.decomposition(character).removeprefix("<").partition("> ")
    plain = unicodedata.normalize("NFKC", character)
    if not unicodedata.decomposition(character).startswith("<") or plain.startswith(" "):
        return False
    if form in DRAWN_AS:
        return not TYPED.match(character)
    return character not in SIGNS and any(each.isascii() and each.isalpha() for each in plain)


def _like_latin(name: str) -> str:
    """Return a letter that looks like a Latin one beside Latin ones; "" where there is none.

    Beside: in the same word; or in the same name, where nothing in it is plainly of another script.
    """
    words: list[str] = LETTERS.findall(name)
    latin = {each for word in words for each in word if unicodedata.name(each, "").startswith("LATIN")}
    is_plain = all(each in latin or each in LIKE_LATIN for word in words for each in word)
    for word in words if latin else ():
        alike = [each for each in word if each in LIKE_LATIN]
        if alike and (is_plain or latin.intersection(word)):
            return alike[0]
    return ""


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) == "Mn"


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"
