"""Why a connection failed, in the system's own words where it has any, without what libraries write around them."""

import os
import re
import ssl

import httpx

CALL_FAILED = re.compile(r"\[Errno (\d+)\] Connect call failed")
"""What asyncio says of each address of a name."""
ERROR_NUMBER = re.compile(r"\[Errno -?\d+\] ")
TOO_LATE = "no answer in time"
AT_ONCE_SECONDS = 0.05
"""A shorter pause rounds to no seconds."""


def words(error: BaseException) -> str:
    """Return why a connection failed, without a full stop."""
    text, behind = str(error), error
    if not text and isinstance(error, TimeoutError | httpx.TimeoutException):
        return TOO_LATE
    text = text or type(error).__name__
    numbers = [int(number) for number in CALL_FAILED.findall(text)]
    while not numbers and behind is not None:
        if isinstance(behind, OSError) and not isinstance(behind, ssl.SSLError) and (behind.errno or 0) > 0:
            numbers = [behind.errno or 0]
        behind = behind.__cause__ or behind.__context__  # type: ignore[assignment]  # the end of the chain
    said = ", ".join(dict.fromkeys(map(os.strerror, numbers))) or ERROR_NUMBER.sub("", text)
    return said.rstrip(".")


def next_try(pause: float) -> str:
    """Return the sentence that says when it is tried again, after a pause in seconds."""
    return "Trying again at once." if pause < AT_ONCE_SECONDS else f"Trying again in {pause:.1f} s."
