"""What the API server refuses, by kind.

KubeError
├── Unauthorised    401
├── Forbidden       403: a role, a quota, an admission rule, a namespace that is going
├── NotFound        404: no such object or namespace; without a `reason`: no such kind of objects
├── AlreadyExists   409
├── Conflict        409: another client changed the object since it was read
├── Gone            410: a version too old to go on from
├── Invalid         422
├── Throttled       429
└── Unreachable     no answer, or 502, 503, 504
"""

# ruff: noqa: N818 - they are named as the API server names them

import json

from agentlink.agent.kube.resources import JsonObject


class KubeError(Exception):
    """A request that failed: `status` (0: no answer), the API server's `reason`, its words, and what caused it."""

    def __init__(
        self, status: int, reason: str = "", message: str = "", causes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message or reason or f"The API server answered {status}.")
        self.status, self.reason, self.causes = status, reason, causes
        self.retry_after_seconds: float | None = None

    @property
    def message(self) -> str:
        """Return the API server's words."""
        return str(self)


class Unauthorised(KubeError):
    """The client is not known."""


class Forbidden(KubeError):
    """The client may not."""


class NotFound(KubeError):
    """There is no such object, namespace or, without a `reason`, kind of objects."""


class AlreadyExists(KubeError):
    """An object of that name is there."""


class ObjectConflict(KubeError):
    """The object is not what it was when it was read."""


class VersionGone(KubeError):
    """The version is too old to go on from: list anew."""


class Invalid(KubeError):
    """The object does not hold to its schema, or changes what must not change."""


class Throttled(KubeError):
    """The API server has too much to do."""


class Unreachable(KubeError):
    """The API server gave no answer, or something before it said so."""


_BY_STATUS: dict[int, type[KubeError]] = {
    401: Unauthorised,
    403: Forbidden,
    404: NotFound,
    409: ObjectConflict,
    410: VersionGone,
    422: Invalid,
    429: Throttled,
    502: Unreachable,
    503: Unreachable,
    504: Unreachable,
}


def from_status(body: JsonObject, status: int, retry_after: str = "") -> KubeError:
    """Return the error that a `Status` object tells of; `retry_after` is the header of that name."""
    status = int(body.get("code") or status)
    reason = str(body.get("reason") or "")
    details = body.get("details") or {}
    causes = tuple(str(cause.get("reason") or "") for cause in details.get("causes") or ())
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, KubeError)
    error = kind(status, reason, str(body.get("message") or ""), causes)
    wait = retry_after or str(details.get("retryAfterSeconds") or "")
    if wait.isdigit():
        error.retry_after_seconds = float(wait)
    return error


def from_answer(status: int, content: bytes, retry_after: str = "") -> KubeError:
    """Return the error that an answer means, whatever its body is."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if not isinstance(body, dict) or body.get("kind") != "Status":
        body = {"message": content[:500].decode(errors="replace").strip()}
    return from_status(body, status, retry_after)
