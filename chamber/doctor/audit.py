"""The chain of the audit trail, by what the duties that seal and check it leave behind."""

from collections.abc import Iterator

from django.utils import timezone

from chamber.doctor.finding import DoctorFinding, Fact, seconds_text
from chamber.words import count, plural
from teams.chain.duty import CHECKED_WITHIN, SEALED_WITHIN, WHOLE_WITHIN, ChainState, is_late, standing


def chain() -> Iterator[DoctorFinding | Fact]:
    """Look whether the chain held when it was last checked, and whether it is sealed and checked at all."""
    found = standing()
    check = found.check
    if check is not None and check.fault:
        yield DoctorFinding(
            f"The audit trail was changed past Chamber, or its chain was. {check.fault}",
            "Find out who can write to the database; compare with an export, and with the heads in older logs. Once "
            "you know why, `chamber audit verify` tells how to accept it.",
        )
    if is_late(found.since, SEALED_WITHIN):
        rows = f"{count(found.waiting, 'row')} {plural(found.waiting, 'waits', 'wait')}"
        yield DoctorFinding(
            f"Of the audit trail {rows} to be sealed, the first since {found.since:%Y-%m-%d %H:%M} UTC.",
            "Look into the log of `chamber worker --queue duties`.",
        )
    yield from _last_checked(found)


def _last_checked(found: ChainState) -> Iterator[DoctorFinding | Fact]:
    check = found.check
    if check is None:
        yield Fact("The audit trail's chain was not checked yet; a duty does within a minute.")
        return
    age = seconds_text((timezone.now() - check.at).total_seconds())
    whole = "are being checked"
    if check.whole_at:
        whole = f"were checked {check.whole_at:%Y-%m-%d %H:%M} UTC"
    if is_late(check.at, CHECKED_WITHIN) or is_late(check.whole_at, WHOLE_WITHIN):
        yield DoctorFinding(
            f"New rows of the audit trail were last checked against its chain {age} ago; all rows {whole}.",
            "Look into the log of `chamber worker --queue duties`, or check it by `chamber audit verify`.",
        )
    elif not check.fault:
        yield Fact(
            f"New rows of the audit trail fit its chain up to row {check.number:,}{found.known.words}, checked "
            f"{age} ago; all rows, once a day, {whole}. "
            f"Its head: {check.number}:{check.digest}."
        )
