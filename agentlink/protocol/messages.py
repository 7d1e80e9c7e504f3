"""The messages of protocol 1, as both ends hold them."""

from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

VERSION = 1
MAX_BYTES = 1024 * 1024
MAX_REPORTS = 500
"""Reports in one `observed`: a message is taken in one short transaction."""


def _plain(text: str) -> str:
    if "\x00" in text:
        raise ValueError("a NUL character is not allowed")
    return text


Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
Small = Annotated[int, Field(ge=0, le=2**31 - 1)]
Name = Annotated[str, Field(min_length=1, max_length=253), AfterValidator(_plain)]
Code = Annotated[str, Field(max_length=40), AfterValidator(_plain)]
Word = Annotated[str, Field(max_length=60), AfterValidator(_plain)]
Sentence = Annotated[str, Field(max_length=2000), AfterValidator(_plain)]
Text = Annotated[str, Field(max_length=64 * 1024), AfterValidator(_plain)]


class _Part(BaseModel):
    """What messages are made of: unknown keys are refused, values are taken as they are and never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Message(_Part):
    protocol: Literal[1] = 1


class Phase(StrEnum):
    """How far the pods of an attempt have come."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPING = "stopping"
    GONE = "gone"


ENDED = frozenset({Phase.SUCCEEDED, Phase.FAILED})


class PodState(StrEnum):
    """Where one pod stands; in the first two it has its devices."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


LIVING = frozenset({PodState.PENDING, PodState.RUNNING})


# What both directions speak of


class DeviceShare(_Part):
    """A share of one GPU of a node."""

    index: Small
    share_milli: Annotated[int, Field(ge=1, le=1000)]


class AssignedPod(_Part):
    """Where one pod goes."""

    index: Small
    node: Name
    devices: Annotated[tuple[DeviceShare, ...], Field(min_length=1, max_length=1024)]


class Assignment(_Part):
    """An attempt that should run here. Its pods may be created once `let_go`: until then somebody's are in the way.

    `reported` is the highest sequence that the server took: the agent goes on from there, also after a restart.
    """

    workload: UUID
    slug: Name
    attempt: UUID
    number: Annotated[int, Field(ge=1, le=2**31 - 1)]
    pods: tuple[AssignedPod, ...]
    let_go: bool
    image: Sentence
    command: tuple[Text, ...] = ()
    environment: dict[Text, Text] = {}
    cpu_milli: Count = 0
    memory_mib: Count = 0
    grace_seconds: Small
    time_limit_seconds: Small | None = None
    reported: Count = 0


class StopOrder(_Part):
    """An attempt that must not run here and was not reported gone: answered by reports until it is."""

    workload: UUID
    attempt: UUID
    number: Annotated[int, Field(ge=1, le=2**31 - 1)]
    reported: Count = 0


class PodReport(_Part):
    """A pod that exists."""

    index: Small
    node: Name
    state: PodState
    reason: Word = ""


class Report(_Part):
    """Everything observed of an attempt at once: a later report replaces the earlier ones.

    `generation` is the desired one that the agent worked by when it made the report; `pods` are those that exist or
    were asked for. `reason` is a code; `message` the sentence for people. An attempt that the cluster would not start
    at all is `failed` without `created_at`.
    """

    workload: UUID
    attempt: UUID
    number: Annotated[int, Field(ge=1, le=2**31 - 1)]
    sequence: Annotated[int, Field(ge=1, le=2**53 - 1)]
    generation: Count
    phase: Phase
    pods: tuple[PodReport, ...] = ()
    reason: Code = ""
    message: Sentence = ""
    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    created_at: AwareDatetime | None = None
    running_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None

    @property
    def frees_devices(self) -> bool:
        """Return whether no pod of the attempt has a device any more."""
        return self.phase is Phase.GONE or (
            self.phase in ENDED and not any(pod.state in LIVING for pod in self.pods)
        )


class DeviceReport(_Part):
    """One GPU of a node."""

    index: Annotated[int, Field(ge=0, le=32767)]
    gpu_type: Word = ""
    memory_mib: Small | None = None
    foreign: bool = False


def _each_once(devices: tuple[DeviceReport, ...]) -> tuple[DeviceReport, ...]:
    if len({device.index for device in devices}) < len(devices):
        raise ValueError("an index of a device comes twice")
    return devices


class NodeReport(_Part):
    """A machine. None = not bounded."""

    name: Name
    ready: bool = True
    cordoned: bool = False
    cpu_milli: Count | None = None
    memory_mib: Count | None = None
    labels: dict[Name, Annotated[str, Field(max_length=253), AfterValidator(_plain)]] = {}
    taints: tuple[Sentence, ...] = ()
    partition: Word = ""
    sharing: bool = True
    devices: Annotated[tuple[DeviceReport, ...], Field(max_length=1024), AfterValidator(_each_once)] = ()


# Agent -> server


class Hello(_Message):
    """Begins a conversation, or begins it again: each hello has a `connection` of its own, and the newest wins."""

    type: Literal["hello"] = "hello"
    connection: UUID
    agent_version: Code
    cluster_uid: Annotated[str, Field(max_length=64), AfterValidator(_plain)]
    nodes: Count
    gpus: Count


class Heartbeat(_Message):
    """Sent every 10 s. `generation` is the desired one that the agent works by; 0 until it has a full set."""

    type: Literal["heartbeat"] = "heartbeat"
    connection: UUID
    generation: Count


def _in_order(nodes: tuple[NodeReport, ...]) -> tuple[NodeReport, ...]:
    if any(after.name <= before.name for before, after in pairwise(nodes)):
        raise ValueError("the nodes do not come in the order of their names, each once")
    return nodes


class Inventory(_Message):
    """All nodes in the order of their names, in parts counted from 0; a node that is in none of them is gone.

    Each inventory of a conversation has a higher generation than the one before it.
    """

    type: Literal["inventory"] = "inventory"
    generation: Count
    part: Small
    last: bool
    nodes: Annotated[tuple[NodeReport, ...], AfterValidator(_in_order)]


class Observed(_Message):
    """What became of attempts."""

    type: Literal["observed"] = "observed"
    reports: Annotated[tuple[Report, ...], Field(max_length=MAX_REPORTS)]


class DiscoveredJob(_Part):
    """A job that somebody created in the cluster himself."""

    uid: Name
    namespace: Name
    name: Name


class Discovered(_Message):
    """Workloads that were not submitted through Chamber."""

    type: Literal["discovered"] = "discovered"
    jobs: tuple[DiscoveredJob, ...]


class UsageFigure(_Part):
    """What a workload made of its GPUs since the last figure."""

    workload: UUID
    at: AwareDatetime
    utilisation_percent: Annotated[int, Field(ge=0, le=100)]
    memory_mib: Count


class Usage(_Message):
    """GPU use by workload."""

    type: Literal["usage"] = "usage"
    figures: tuple[UsageFigure, ...]


AgentMessage = Annotated[
    Hello | Heartbeat | Inventory | Observed | Discovered | Usage, Field(discriminator="type")
]


# Server -> agent


class Desired(_Message):
    """What should run, for the hello of `connection`. `base` is the generation that a delta builds on; None = the full
    set.

    In a full set, what is in neither list does not belong; in a delta it is as before, but for `forget`: attempts
    that are over and need no report.
    """

    type: Literal["desired"] = "desired"
    connection: UUID
    generation: Count
    base: Count | None
    part: Small
    last: bool
    assignments: tuple[Assignment, ...] = ()
    stop: tuple[StopOrder, ...] = ()
    forget: tuple[UUID, ...] = ()


class Taken(_Part):
    """A report that the server has, or needs no more."""

    attempt: UUID
    sequence: Count


class Ack(_Message):
    """What the server took: reports, and the generation of a whole inventory."""

    type: Literal["ack"] = "ack"
    reports: tuple[Taken, ...] = ()
    inventory: Count | None = None


class ErrorCode(StrEnum):
    """What was wrong, for the agent's reaction."""

    INVALID = "invalid"
    TOO_LARGE = "too-large"
    NOT_AUTHORISED = "not-authorised"
    SUPERSEDED = "superseded"
    NO_HELLO = "no-hello"
    INVENTORY_GAP = "inventory-gap"
    UNKNOWN_ATTEMPT = "unknown-attempt"
    NOT_SUPPORTED = "not-supported"
    FAULT = "fault"


CLOSE_CODES = {ErrorCode.NOT_AUTHORISED: 4401, ErrorCode.SUPERSEDED: 4409}
"""Errors that end a conversation, and the code with which its socket is closed."""


class Error(_Message):
    """What was wrong with which message; `attempt` where it is about one report."""

    type: Literal["error"] = "error"
    code: ErrorCode
    message: Sentence
    about: Word = ""
    attempt: UUID | None = None


ServerMessage = Annotated[Desired | Ack | Error, Field(discriminator="type")]

Message = Hello | Heartbeat | Inventory | Observed | Discovered | Usage | Desired | Ack | Error
