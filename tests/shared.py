"""What several files of tests share, and one process runs for all of them: it ends with the last test that wants it.

A deployment, or the demo, that went on until the end of the run would take the cores from the other tests.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

import pytest

from rig.spreading import unit_of

T = TypeVar("T")

_ENDS = pytest.StashKey[ExitStack]()


@contextmanager
def until_the_last(config: pytest.Config, made: AbstractContextManager[T]) -> Iterator[T]:
    """Give what `made` gives; it ends with the block, or already with the last test of its unit."""
    with ExitStack() as stack:
        config.stash.setdefault(_ENDS, ExitStack()).push(stack)
        yield stack.enter_context(made)


def end_with(item: pytest.Item, following: pytest.Item | None) -> None:
    """End what is shared where the next test is of another unit; in a process that is given whole units only."""
    if "PYTEST_XDIST_WORKER" not in os.environ or following is None:
        return
    if unit_of(item.nodeid) != unit_of(following.nodeid):
        item.config.stash.setdefault(_ENDS, ExitStack()).close()
