"""What a Job knows of its attempt: written into an annotation, read back by whichever agent comes next."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from agentlink.protocol import MAX_SENTENCE, AssignedPod, AssignedShare

WHOLE_MILLI = 1000

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What comes of an annotation that people wrote."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The pods of one Job, by its completion indexes, and which attempt they belong to.

    An attempt has one Job for all pods that are equal but for their place; more where they differ, or were added
    later. Those that start together are a wave of `size` pods.
    """

    workload: UUID
    attempt: UUID
    number: int
    pods: tuple[AssignedPod, ...]
    wave: int = 0
    size: int = 1
    service: str = ""
    """The headless Service by which the pods find each other; empty for a pod alone."""
    time_limit_seconds: int | None = None
    memory_mib: int = 0

    def as_text(self) -> str:
        """Return the plan as an annotation, as short as may be: a cluster takes 256 KiB of them on an object."""
        body: dict[str, Any] = {
            "workload": str(self.workload),
            "attempt": str(self.attempt),
            "number": self.number,
            "wave": self.wave,
            "size": self.size,
            "service": self.service,
            "limit": self.time_limit_seconds,
            "memory": self.memory_mib,
            "pods": [[pod.index, pod.node, [_short(share) for share in pod.devices]] for pod in self.pods],
        }
        return json.dumps(body, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the plan that an annotation holds; None where it holds none."""
        try:
            body = json.loads(text)
            return cls(
                workload=UUID(body["workload"]),
                attempt=UUID(body["attempt"]),
                number=int(body["number"]),
                pods=tuple(_pod(*entry) for entry in body["pods"]),
                wave=int(body["wave"]),
                size=int(body["size"]),
                service=str(body["service"]),
                time_limit_seconds=body["limit"],
                memory_mib=int(body["memory"]),
            )
        except UNREADABLE:
            return None


def _short(share: AssignedShare) -> int | list[int]:
    whole = share.share_milli == WHOLE_MILLI
    return share.index if whole else [share.index, share.share_milli]


def _pod(index: int, node: str, devices: list[int | list[int]]) -> AssignedPod:
    pairs = [(each, WHOLE_MILLI) if isinstance(each, int) else (each[0], each[1]) for each in devices]
    shares = tuple(AssignedShare(index=device, share_milli=milli) for device, milli in pairs)
    return AssignedPod(index=index, node=node, devices=shares)


@dataclass(frozen=True, slots=True)
class AttemptVerdict:
    """How an attempt ended that did not go well: it is written to its Job before it is told.

    `refused`: the cluster never ran it, and nothing of it is at fault.
    """

    code: str
    message: str
    at: datetime
    exit_code: int | None = None
    refused: bool = False

    def as_text(self) -> str:
        """Return the verdict as an annotation."""
        body = {"code": self.code, "message": self.message, "at": self.at.isoformat(), "exit": self.exit_code}
        return json.dumps({**body, "refused": self.refused}, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the verdict that an annotation holds; None where it holds none."""
        try:
            body = json.loads(text)
            at = datetime.fromisoformat(body["at"])
            if at.tzinfo is None:
                return None
            exit_code = None if body["exit"] is None else int(body["exit"])
            if exit_code is not None and not -(2**31) <= exit_code < 2**31:
                return None
            code, message = (str(body[key]).replace("\x00", "") for key in ("code", "message"))
            return cls(code[:40], message[:MAX_SENTENCE], at, exit_code, bool(body["refused"]))
        except UNREADABLE:
            return None
