"""What becomes of workloads, as lines of the log: after commit, each with its workload, and a bounded number an act."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from django.db import transaction

from chamber import logs
from chamber.words import count

logger = logging.getLogger(__name__)

MOST_LINES = 20
"""Lines of one act; of more events the rest is one line: the workloads' own events tell them all."""


class JournalLine(NamedTuple):
    """What happened to a workload, by its slug; `attempt` is that one's number."""

    workload: str
    attempt: int | None
    message: str


def tell(told: Sequence[JournalLine]) -> None:
    """Log the lines once this transaction is committed; what was bound to the log by then stands on each."""
    if told and logger.isEnabledFor(logging.INFO):
        transaction.on_commit(partial(_write, list(told)))


def _write(told: list[JournalLine]) -> None:
    for line in told[:MOST_LINES]:
        with logs.bind(workload=line.workload, attempt="" if line.attempt is None else line.attempt):
            logger.info("%s", line.message)
    rest = told[MOST_LINES:]
    if rest:
        with logs.bind(workload=rest[0].workload):
            logger.info("%s of workloads; the first is this one's.", count(len(rest), "more event"))
