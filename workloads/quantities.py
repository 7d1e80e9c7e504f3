"""GPUs and memory between what people write and what is stored: milli-GPUs, MiB."""

import re
from decimal import Decimal, InvalidOperation

from chamber import invalid

WHOLE_MILLI = 1000
MOST_GPUS = 1024
"""Most GPUs that one pod may ask for."""

_LONGEST = 40
"""Longest text that can be an amount: what is longer is nonsense, or a float that overflows."""

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([MGT])(?:i?B|i)?)?", re.ASCII | re.IGNORECASE)


def gpus(milli: int) -> int | float:
    """Return milli-GPUs as the number of GPUs that JSON shows: 4, 0.25."""
    return milli // WHOLE_MILLI if milli % WHOLE_MILLI == 0 else milli / WHOLE_MILLI


def gpus_text(milli: int) -> str:
    """Return milli-GPUs with their unit: "4 GPUs", "1 GPU", "0.25 GPUs"."""
    return f"{gpus(milli):,} {'GPU' if milli == WHOLE_MILLI else 'GPUs'}"


def gpu_milli(value: object) -> int:
    """Return the GPUs of a pod in milli-GPUs; raise `ValueError` with a sentence where it is not a legal
    share.

    Legal are 0.25, 0.5, 0.75 and whole GPUs; the sentence names the nearest ones.
    """
    number = _decimal(value)
    if number is None:
        raise ValueError(
            f"{invalid.shown(value)} is not a number of GPUs: ask for 0.25, 0.5, 0.75 or whole GPUs per pod."
        )
    if number > MOST_GPUS:
        raise ValueError(f"A pod asks for {_short(number)} GPUs; at most {MOST_GPUS:,} are allowed.")
    if number == number.to_integral_value() and number >= 1:
        return int(number) * WHOLE_MILLI
    if number in (Decimal("0.25"), Decimal("0.5"), Decimal("0.75")):
        return int(number * WHOLE_MILLI)
    low, high = _neighbours(number)
    nearest = f"{low} and {high}" if low else str(high)
    verb = "values are" if low else "value is"
    raise ValueError(
        f"A pod cannot have {_short(number)} GPUs: a part of a GPU is 0.25, 0.5 or 0.75, more than one are whole. "
        f"The nearest legal {verb} {nearest}."
    )


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    text = str(value).strip()
    # Python takes both for numbers.
    if not text.isascii() or "_" in text:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _short(number: Decimal) -> str:
    return format(number, "f" if -6 <= number.adjusted() <= 12 else ".6g")


def _neighbours(number: Decimal) -> tuple[str, str]:
    """Return the legal values below and above an illegal one; nothing lies below 0.25."""
    if number < Decimal("0.25"):
        return "", "0.25"
    if number > 1:
        return str(int(number)), str(int(number) + 1)
    quarters = int(number * 4)
    return f"{quarters / 4:g}", f"{(quarters + 1) / 4:g}"


def mib(value: str) -> int:
    """Return an amount of memory as MiB: a number of them, or for example "512 MiB", "64 GiB", "64Gi", "1
    TiB".
    """
    found = _MEMORY.fullmatch(value.strip()) if len(value) <= _LONGEST else None
    if found is None:
        raise ValueError(
            f"{invalid.shown(value)} is not an amount of memory: write MiB, or for example 64 GiB."
        )
    size = {"m": 1, "g": 1024, "t": 1024 * 1024}[(found[2] or "m").lower()]
    return round(float(found[1]) * size)
