"""What stands outside the tables: what the load was answered, and what the clusters' own records say that ran."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One request of the load. `status` is None where no answer came in time: it may have been done or not."""

    user: str
    act: str
    target: str
    key: str
    status: int | None
    made: tuple[str, ...] = ()
    """Slugs that a submission was answered with."""
    names: tuple[str, ...] = ()
    """Names of what was submitted: each is used for one workload only."""

    @property
    def was_done(self) -> bool:
        """Return whether the answer says that it was done."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_unknown(self) -> bool:
        """Return whether it may have been done: no answer, or one that the server failed on."""
        return self.status is None or self.status >= 500

    def __str__(self) -> str:
        answer = "no answer" if self.status is None else f"answered {self.status}"
        return f"{self.user}: {self.act} {self.target or ' '.join(self.names)} {answer} {' '.join(self.made)}".rstrip()


@dataclass(frozen=True, slots=True)
class PodLine:
    """What a cluster's record says of one pod: created, ended, or refused; lines are in the order of happening."""

    cluster: str
    what: str
    at: float
    workload: UUID
    attempt: UUID
    number: int
    pod: int
    node: str
    devices: tuple[tuple[int, int], ...]
    message: str

    def __str__(self) -> str:
        return (
            f"{self.cluster}'s record: {self.what} at {self.at:.3f} pod {self.pod} of attempt {self.number} "
            f"({self.attempt}) on {self.node or '?'} {list(self.devices)} {self.message}".rstrip()
        )


@dataclass(frozen=True, slots=True)
class Records:
    """Both records, read after the tables that were read at `before`; empty ones prove nothing and break nothing."""

    asked: tuple[LoadRequest, ...] = ()
    pods: tuple[PodLine, ...] = ()
    before: float = 0.0
    clusters: frozenset[str] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "clusters", frozenset(line.cluster for line in self.pods))

    @staticmethod
    def answers_of(path: Path | None, *, before: float) -> tuple[LoadRequest, ...]:
        """Return what the load's journal holds. What was answered later than `before` may be in the tables or not.

        By the monotonic clock, as the lines are. So whatever is in the tables was asked, and whatever was answered is
        in the tables.
        """
        if path is None or not path.exists():
            return ()
        asked: dict[int, dict[str, Any]] = {}
        for row in _lines(path):
            if "act" in row:
                asked[row["id"]] = row
            elif row["at"] < before:
                asked[row["id"]] |= row
        return tuple(
            LoadRequest(
                user=row["user"],
                act=row["act"],
                target=row["target"],
                key=row["key"],
                names=tuple(row["names"]),
                status=row.get("status"),
                made=tuple(row.get("made", ())),
            )
            for row in asked.values()
        )

    @staticmethod
    def pods_of(paths: Iterable[Path]) -> tuple[PodLine, ...]:
        """Return the clusters' records, one after the other; a cluster is called as its file."""
        return tuple(_pod(path.stem, row) for path in paths if path.exists() for row in _lines(path))


def _pod(cluster: str, row: dict[str, Any]) -> PodLine:
    return PodLine(
        cluster=cluster,
        what=row["what"],
        at=row["at"],
        workload=UUID(row["workload"]),
        attempt=UUID(row["attempt"]),
        number=row["number"],
        pod=row["pod"],
        node=row["node"],
        devices=tuple((index, share) for index, share in row["devices"]),
        message=row.get("message", ""),
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    text = path.read_text()
    complete = text[: text.rfind("\n") + 1]
    for line in complete.splitlines():
        yield json.loads(line)
