"""How much command and variables of a workload, and of all members of an array, may have together."""

import json
from collections.abc import Mapping, Sequence

from chamber.words import count
from workloads.arrays.asked import ArrayRequest, largest_extra

MOST_TO_RUN_BYTES = 256 * 1024
"""Command and environment together: an agent is told of a workload in one message of at most 1 MiB."""
MOST_OF_ARRAY_BYTES = 64 * 1024 * 1024
"""The same of all members of an array, each of which is stored with its own."""


def problem(
    command: Sequence[str], variables: Mapping[str, str], array: ArrayRequest | None, *, beside: str = ""
) -> str:
    """Return by how much these are too many bytes; "" where they are not. `beside` names the environment of which some
    of them are.
    """
    size = len(json.dumps([command, variables], ensure_ascii=False).encode())
    if array is not None:
        size += largest_extra(array)
    what = "Command and variables" if beside else "Command and environment"
    more = f" with those of {beside}" if beside else ""
    if size > MOST_TO_RUN_BYTES:
        whose = "" if array is None else " of a member"
        return f"{what}{whose} have {size:,} bytes together{more}; at most {MOST_TO_RUN_BYTES:,} are allowed."
    if array is not None and size * array.size > MOST_OF_ARRAY_BYTES:
        return (
            f"{what} of {count(array.size, 'member')} have up to {size * array.size:,} bytes together{more}; at most "
            f"{MOST_OF_ARRAY_BYTES:,} are allowed in an array."
        )
    return ""
