"""The trail as lines of JSON with its seals, written while it is sent, for `chamber audit verify FILE`."""

import json
from datetime import UTC
from typing import Any

from django.utils import timezone

from teams.chain.checking import present
from teams.chain.events import row_of
from teams.chain.faults import known_breaks
from teams.chain.rows import FORM, ChainHead
from teams.chain.sealing import anchor_of, head_of
from teams.models import AuditEvent, AuditSeal
from teams.querysets import AuditEventQuerySet

AT_ONCE = 1000


class SealedExport:
    """Matching rows that are sealed, in the order of the chain: `begin`, then `go_on` until there are no more.

    `filters` are what the rows were chosen by; without, the file has the whole chain, or it does not verify.
    """

    def __init__(self, rows: AuditEventQuerySet, filters: dict[str, str]) -> None:
        self._rows, self._filters = rows, filters
        self._head = self._anchor = ChainHead(0, "")
        self._number = self._count = 0
        self._ended = False

    def begin(self) -> str:
        """Return the first line, which tells what the file has (2 queries)."""
        chain = present()
        self._head, self._anchor = head_of(chain), anchor_of(chain)
        self._number = self._anchor.number
        return _line(
            {
                "form": FORM,
                "exported_at": timezone.now().astimezone(UTC).isoformat(timespec="seconds"),
                "filters": self._filters,
                "anchor": _place(self._anchor),
                "head": _place(self._head),
                "known_breaks": known_breaks().sentences,
            }
        )

    def go_on(self) -> str:
        """Return the next lines, the last one after all rows; "" after that (2 queries)."""
        if self._ended:
            return ""
        rows = self._rows.filter(seal__number__gt=self._number, seal__number__lte=self._head.number)
        found = list(rows.select_related("seal").order_by("seal__number")[:AT_ONCE])
        if not found:
            self._ended = True
            return _line({"rows": self._count})
        before = [event.seal.number - 1 for event in found]
        digests = dict(AuditSeal.objects.filter(number__in=before).values_list("number", "digest"))
        digests.setdefault(self._anchor.number, self._anchor.digest)
        self._number, self._count = found[-1].seal.number, self._count + len(found)
        return "".join(_line(_sealed(event, digests)) for event in found)


def _sealed(event: AuditEvent, digests: dict[int, str]) -> dict[str, Any]:
    seal = event.seal
    return {
        "number": seal.number,
        "previous": digests.get(seal.number - 1, ""),
        "digest": seal.digest,
        "mac": seal.mac,
        "event": row_of(event),
    }


def _place(head: ChainHead) -> dict[str, Any]:
    return {"number": head.number, "digest": head.digest}


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
