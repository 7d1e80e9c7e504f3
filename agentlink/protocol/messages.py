"""The messages of protocol 1, as both ends hold them."""

from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from agentlink.protocol.profiles import GPU_MILLI, Slicing, is_mig, sliced_by_name
from agentlink.protocol.releases import Since
from chamber.notes import LONGEST_URL, MILLION, MOST_STEP, NoteKind, NoteProblem

VERSION = 1
MAX_BYTES = 1024 * 1024
MAX_REPORTS = 500
"""Reports in one `observed`: a message is taken in one short transaction."""
MAX_JOBS = 200
"""Jobs in one `discovered`: each that is new is a submission."""
MAX_FIGURES = 500
"""Figures in one `usage`, for the same reason."""
MAX_NOTES = 500
"""Notes in one `notes`, and problems with notes, for the same reason."""
MOST_EPOCHS = 2**52
NOTICE_SECONDS = 60
"""How long before its signal a pod that is preempted gets a notice, which is part of its grace period."""
NOTICE_FROM_SECONDS = 120
"""Grace period from which there is one."""
MAX_SENTENCE = 2000
MAX_NAMED = 100
"""Secrets, or ConfigMaps, that the pods of one Job name."""
MAX_DEVICES = 8192
"""GPUs of one figure: as many as fit a message."""
SINCE_0_2 = Since("0.2.0")


def _plain(text: str) -> str:
    if "\x00" in text:
        raise ValueError("a NUL character is not allowed")
    return text


def _visible(text: str) -> str:
    """Kubernetes names nodes in ASCII: anything else could only look like the name of another one."""
    wrong = next((each for each in text if not "!" <= each <= "~"), "")
    if wrong:
        raise ValueError(
            f"{text[:80]!r} is no name of a node: it contains U+{ord(wrong):04X}; visible ASCII characters are allowed"
        )
    return text


Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
Small = Annotated[int, Field(ge=0, le=2**31 - 1)]
Name = Annotated[str, Field(min_length=1, max_length=253), AfterValidator(_plain)]
NodeName = Annotated[str, Field(min_length=1, max_length=253), AfterValidator(_visible)]
Code = Annotated[str, Field(max_length=40), AfterValidator(_plain)]
Word = Annotated[str, Field(max_length=60), AfterValidator(_plain)]
Sentence = Annotated[str, Field(max_length=MAX_SENTENCE), AfterValidator(_plain)]
Text = Annotated[str, Field(max_length=64 * 1024), AfterValidator(_plain)]


class _Part(BaseModel):
    """What messages are made of: unknown keys are refused, values are taken as they are and never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Message(_Part):
    protocol: Literal[1] = 1


class ReportedPhase(StrEnum):
    """How far the pods of an attempt have come."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPING = "stopping"
    GONE = "gone"


ENDED = frozenset({ReportedPhase.SUCCEEDED, ReportedPhase.FAILED})


class PodState(StrEnum):
    """Where one pod stands; in the first two it has its devices."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


LIVING = frozenset({PodState.PENDING, PodState.RUNNING})


# What both directions speak of


class AssignedShare(_Part):
    """A share of one GPU of a node; a slice is taken whole, by the share that it counts as."""

    index: Small
    share_milli: Annotated[int, Field(ge=1, le=1000)]


class AssignedPod(_Part):
    """Where one pod goes."""

    index: Small
    node: Name
    devices: Annotated[tuple[AssignedShare, ...], Field(min_length=1, max_length=1024)]


class Adopted(_Part):
    """A Job of a user in the cluster, which Chamber lets run and suspends in place of one of its own."""

    namespace: Name
    name: Name
    uid: Name


class AssignedLogin(_Part):
    """By which images are pulled from a registry."""

    server: Sentence
    username: Sentence
    password: Annotated[Text, Field(repr=False)]


class AssignedSecret(_Part):
    """A Secret that lies in the namespace of the pods, and how they get it: its keys as `variables` (names to keys),
    all of it as files in a folder, or to pull images by.
    """

    secret: Name
    use: Literal["variables", "files", "registry"]
    folder: Name
    variables: dict[Text, Name] = {}


class AssignedCredentials(_Part):
    """What only the pods of an attempt get: it is in no other message, and in nothing that the agent keeps or logs.

    `files` are by their paths below `directory`, of at most one folder each.
    """

    directory: Name
    variables: Annotated[dict[Text, Text], Field(repr=False)] = {}
    files: Annotated[dict[Name, Text], Field(repr=False)] = {}
    logins: tuple[AssignedLogin, ...] = ()
    secrets: tuple[AssignedSecret, ...] = ()


class AssignedMount(_Part):
    """Data of an attempt's pods at `path`: a claim of their namespace, or a `folder` of an NFS `server`; or, without a
    path, an `address` that they are told.
    """

    source: Name
    path: Sentence = ""
    read_only: bool = True
    claim: Annotated[str, Field(max_length=253), AfterValidator(_plain)] = ""
    server: Annotated[str, Field(max_length=253), AfterValidator(_plain)] = ""
    folder: Sentence = ""
    address: Sentence = ""


class DesiredAttempt(_Part):
    """An attempt that should run here. Its pods may be created once `let_go`: until then other pods are in the way.

    `reported` is the highest sequence that the server took: the agent goes on from there, also after a restart.
    `most_pods` are as many as it may grow to. `namespace` is the one bound to the team; empty where none is, and the
    agent uses its own. `reserved`: nothing preempts it. Tolerations are written as `key=value:Effect`, like taints.
    `name`, `owner` and `job_class` are for people; `labels` and `annotations` are those of its people, for its pods. It
    starts with `least_pods` (0: not told). `shm_mib` is shared memory, a part of `memory_mib`; None = half of that.
    `read_notes`: its output is read for notes of checkpoints and progress. `notes_url` and `notes_token`: where and by
    what its pods may say the same by a call; empty where they cannot. `resumed_from` is the step of the last checkpoint
    that an attempt before it saved; None: there is none. `credentials` are told once it is let go.
    It runs in the folder `working_dir`, the image's own where that is empty. `scratch_mib` is disk for each pod at
    /scratch; 0: none. `mounts` is what they find where, or are told of.
    """

    workload: UUID
    slug: Name
    attempt: UUID
    number: Annotated[int, Field(ge=1, le=2**31 - 1)]
    pods: tuple[AssignedPod, ...]
    let_go: bool
    most_pods: Count = 1
    team: Name = "-"
    namespace: Annotated[str, Field(max_length=63), AfterValidator(_plain)] = ""
    adopted: Adopted | None = None
    tolerations: tuple[Sentence, ...] = ()
    image: Sentence
    command: tuple[Text, ...] = ()
    environment: dict[Text, Text] = {}
    cpu_milli: Count = 0
    memory_mib: Count = 0
    grace_seconds: Small
    time_limit_seconds: Small | None = None
    reserved: Annotated[bool, SINCE_0_2] = False
    reported: Count = 0
    name: Annotated[Sentence, SINCE_0_2] = ""
    owner: Annotated[Sentence, SINCE_0_2] = ""
    job_class: Annotated[Word, SINCE_0_2] = ""
    least_pods: Annotated[Count, SINCE_0_2] = 0
    labels: Annotated[dict[Name, Sentence], SINCE_0_2] = {}
    annotations: Annotated[dict[Name, Text], SINCE_0_2] = {}
    shm_mib: Annotated[Count | None, SINCE_0_2] = None
    read_notes: Annotated[bool, SINCE_0_2] = False
    resumed_from: Annotated[Count | None, SINCE_0_2] = None
    notes_url: Annotated[Sentence, SINCE_0_2] = ""
    notes_token: Annotated[str, Field(max_length=200, repr=False), AfterValidator(_plain), SINCE_0_2] = ""
    credentials: Annotated[AssignedCredentials | None, SINCE_0_2] = None
    working_dir: Annotated[Sentence, SINCE_0_2] = ""
    scratch_mib: Annotated[Count, SINCE_0_2] = 0
    mounts: Annotated[tuple[AssignedMount, ...], SINCE_0_2] = ()


class StopNotice(_Part):
    """What pods are told before they get their signal: why they are stopped, and when it comes. From it on they have
    `grace_seconds`: so much is left of what they were granted.
    """

    why: Sentence
    signal_at: AwareDatetime
    grace_seconds: Small


class StopOrder(_Part):
    """An attempt that must not run here and was not reported gone: answered by reports until it is."""

    workload: UUID
    attempt: UUID
    number: Annotated[int, Field(ge=1, le=2**31 - 1)]
    reported: Count = 0
    notice: Annotated[StopNotice | None, SINCE_0_2] = None


MOST_IMAGES = 4


class PodReport(_Part):
    """A pod that exists. `message` says of the first that cannot start yet why, in the cluster's words; `cause` is the
    code by which its attempt ends if that is still so at `until`.
    """

    index: Small
    node: Name
    state: PodState
    reason: Word = ""
    message: Sentence = ""
    cause: Code = ""
    until: AwareDatetime | None = None


class Report(_Part):
    """Everything observed of an attempt at once: a later report replaces the earlier ones.

    `generation` is the desired one that the agent worked by when it made the report; `pods` are those that exist or
    were asked for. `reason` is a code; `message` the sentence for people. An attempt that the cluster would not start
    at all is `failed` without `created_at`. `images` are those that its pods' nodes pulled, by their digests: more than
    one where a tag meant another image meanwhile.
    """

    workload: UUID
    attempt: UUID
    number: Annotated[int, Field(ge=1, le=2**31 - 1)]
    sequence: Annotated[int, Field(ge=1, le=2**53 - 1)]
    generation: Count
    phase: ReportedPhase
    pods: tuple[PodReport, ...] = ()
    reason: Code = ""
    message: Sentence = ""
    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    created_at: AwareDatetime | None = None
    running_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None
    images: Annotated[tuple[Sentence, ...], Field(max_length=MOST_IMAGES)] = ()

    @property
    def frees_devices(self) -> bool:
        """Return whether no pod of the attempt has a device any more."""
        return self.phase is ReportedPhase.GONE or (
            self.phase in ENDED and not any(pod.state in LIVING for pod in self.pods)
        )


class DeviceReport(_Part):
    """One GPU of a node, or one slice of a GPU, which counts as `share_milli` of it."""

    index: Annotated[int, Field(ge=0, le=32767)]
    gpu_type: Word = ""
    memory_mib: Small | None = None
    foreign: bool = False
    slicing: Slicing = "whole"
    share_milli: Annotated[int, Field(ge=1, le=GPU_MILLI)] = GPU_MILLI

    @model_validator(mode="after")
    def _whole_counts_as_one(self) -> Self:
        if self.slicing == "whole" and self.share_milli != GPU_MILLI:
            raise ValueError(f"a whole GPU counts as {GPU_MILLI} milli-GPUs, not as {self.share_milli}")
        return self


def _each_once(devices: tuple[DeviceReport, ...]) -> tuple[DeviceReport, ...]:
    if len({device.index for device in devices}) < len(devices):
        raise ValueError("an index of a device comes twice")
    return devices


class NodeReport(_Part):
    """A machine. None = not bounded. `cordoned`: takes nothing new, by whomever; `drained`: because an operator has
    Chamber drain it. `problem`: what an operator asked of it and cannot be done, with why, and which GPUs are taken
    though no pod has them."""

    name: NodeName
    ready: bool = True
    cordoned: bool = False
    drained: bool = False
    cpu_milli: Count | None = None
    memory_mib: Count | None = None
    labels: dict[Name, Annotated[str, Field(max_length=253), AfterValidator(_plain)]] = {}
    taints: tuple[Sentence, ...] = ()
    partition: Word = ""
    sharing: bool = True
    problem: Sentence = ""
    devices: Annotated[tuple[DeviceReport, ...], Field(max_length=1024), AfterValidator(_each_once)] = ()

    def slices_by_name(self) -> dict[int, DeviceReport]:
        """Return as slices the devices that are told as whole GPUs and named as slices, by their indexes.

        So they come from an agent that is older than the field, and from files written by hand.
        """
        found = {}
        # Where all GPUs of a node are cut alike, its labels speak of the slices.
        alike = is_mig(self.labels.get("nvidia.com/gpu.product", ""))
        memory = "" if alike else self.labels.get("nvidia.com/gpu.memory", "")
        replicas = self.labels.get("nvidia.com/gpu.replicas", "")
        for device in self.devices:
            if device.slicing == "whole":
                slicing, share_milli = sliced_by_name(
                    device.gpu_type,
                    replicas=int(replicas) if replicas.isdecimal() else None,
                    gpu_memory_mib=int(memory) if memory.isdecimal() else None,
                )
                if slicing != "whole":
                    found[device.index] = device.model_copy(
                        update={"slicing": slicing, "share_milli": share_milli}
                    )
        return found


class Epoch(_Part):
    """How far the server's database was: a number that rises, of one cluster's row."""

    of: UUID
    number: Annotated[int, Field(ge=0, le=MOST_EPOCHS)]


# Agent -> server


class Hello(_Message):
    """Begins a conversation, or begins it again: each hello has a `connection` of its own, and the newest wins.

    `epoch` is the latest that agents of the cluster were told; None: this agent remembers none. A `farewell` is the
    last conversation about a cluster: it takes no work, and the cluster does not count as connected by it. `at` is when
    it was said, by the agent's clock: what was said before the hello of a live agent does not win over it.
    """

    type: Literal["hello"] = "hello"
    connection: UUID
    agent_version: Code
    cluster_uid: Annotated[str, Field(max_length=64), AfterValidator(_plain)]
    nodes: Count
    gpus: Count
    epoch: Epoch | None = None
    farewell: bool = False
    at: AwareDatetime | None = None


class Heartbeat(_Message):
    """Sent every 10 s. `generation` is the desired one that the agent works by; 0 until it has a full set.

    `namespaces` is the version of the bindings that it has, `at` the time by the agent's clock.
    """

    type: Literal["heartbeat"] = "heartbeat"
    connection: UUID
    generation: Count
    namespaces: Count = 0
    at: AwareDatetime | None = None
    epoch: Epoch | None = None


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
    """A Job that a user created in a bound namespace and asks to have adopted, as it is now.

    Quantities are per pod. `priority` is what its label says, as it is written there, `priority_class` what its pods
    name; `who` what an annotation says, which anybody could have written. `secrets` and `config_maps` are the names of
    those that its pods read, by variables or by volumes; `images` are all that its containers run, those that
    only prepare included. `problems` say why it cannot be adopted,
    whoever asks. `revision` is a digest of all that its people wrote.
    """

    uid: Name
    namespace: Name
    name: Name
    pods: Count = 1
    gpus: Count = 0
    cpu_milli: Count = 0
    memory_mib: Count = 0
    image: Sentence = ""
    command: tuple[Sentence, ...] = ()
    node_selector: dict[Name, Sentence] = {}
    gpu_types: Annotated[tuple[Word, ...], Field(max_length=20)] = ()
    tolerations: tuple[Sentence, ...] = ()
    time_limit_seconds: Count | None = None
    grace_seconds: Count = 30
    priority: Sentence = ""
    priority_class: Annotated[str, Field(max_length=253), AfterValidator(_plain)] = ""
    who: Sentence = ""
    service_account: Name = "default"
    volumes: tuple[Word, ...] = ()
    secrets: Annotated[tuple[Name, ...], Field(max_length=MAX_NAMED)] = ()
    config_maps: Annotated[tuple[Name, ...], Field(max_length=MAX_NAMED)] = ()
    images: Annotated[tuple[Sentence, ...], Field(max_length=MAX_NAMED)] = ()
    problems: tuple[Sentence, ...] = ()
    finished: bool = False
    revision: Code = ""


class Unmanaged(_Part):
    """An object in a bound namespace that Chamber does not run, with why."""

    kind: Word
    name: Name
    why: Sentence


class NamespaceReport(_Part):
    """A bound namespace: whether the agent keeps it, else why not, and what runs there without Chamber. `security` is
    the Pod Security level that its pods are held to; empty where it is not known. Of what Chamber does not run there,
    `unmanaged` are the first of `unmanaged_count`. `foreign_gpus` are those of the `foreign_jobs` and of the
    `foreign_pods`, which belong to no Job and of which the first are named.
    """

    namespace: Name
    ready: bool
    problem: Sentence = ""
    security: Word = ""
    foreign_jobs: Small = 0
    foreign_gpus: Small = 0
    foreign_pods: Small = 0
    foreign_pod_names: Annotated[tuple[Name, ...], Field(max_length=20)] = ()
    unmanaged: Annotated[tuple[Unmanaged, ...], Field(max_length=20)] = ()
    unmanaged_count: Small = 0


def _rising(jobs: tuple[DiscoveredJob, ...]) -> tuple[DiscoveredJob, ...]:
    if any(after.uid <= before.uid for before, after in pairwise(jobs)):
        raise ValueError("the Jobs do not come in the order of their uids, each once")
    return jobs


class Discovered(_Message):
    """All Jobs of the bound namespaces that ask to be adopted, in the order of their uids, in parts.

    Each part speaks for the uids after `after` up to its last one, the `last` part for all that follow: a Job in that
    range and not in the part is not there any more, unless it is of a namespace that is not ready. `version` is that
    of the bindings which the agent worked by.
    """

    type: Literal["discovered"] = "discovered"
    version: Count = 0
    after: Annotated[str, Field(max_length=253), AfterValidator(_plain)] = ""
    last: bool = True
    namespaces: tuple[NamespaceReport, ...] = ()
    jobs: Annotated[tuple[DiscoveredJob, ...], Field(max_length=MAX_JOBS), AfterValidator(_rising)] = ()


Percent = Annotated[int, Field(ge=0, le=100)]
DeviceName = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_plain)]


class UsageFigure(_Part):
    """What a workload made of its GPUs since the last figure: means of its GPUs, sums of memory and power.

    `devices` are those that were measured, by a name that stays the same while the workload has them, with how busy
    each was; percentages are rounded down. None = the cluster does not tell.
    """

    workload: UUID
    at: AwareDatetime
    utilisation_percent: Percent
    memory_mib: Count
    tensor_percent: Percent | None = None
    power_watts: Small | None = None
    devices: Annotated[dict[DeviceName, Percent], Field(max_length=MAX_DEVICES)] = {}


class UsageReport(_Message):
    """GPU use by workload, sent every minute. What is lost is not sent again."""

    type: Literal["usage"] = "usage"
    figures: Annotated[tuple[UsageFigure, ...], Field(max_length=MAX_FIGURES)]


class NoteReport(_Part):
    """What an attempt said of itself. `at` is when it was written, by the cluster's clock; `said_at` and `of_attempt`
    are what it says of a checkpoint, where it does.
    """

    attempt: UUID
    at: AwareDatetime
    kind: NoteKind
    step: Annotated[int, Field(ge=0, le=MOST_STEP)] | None = None
    millionths: Annotated[int, Field(ge=0, le=MILLION)] | None = None
    name: Annotated[str, Field(max_length=40), AfterValidator(_plain)] = ""
    url: Annotated[str, Field(max_length=LONGEST_URL), AfterValidator(_plain)] = ""
    said_at: AwareDatetime | None = None
    of_attempt: Count | None = None

    @model_validator(mode="after")
    def _has_its_value(self) -> Self:
        wanted = {
            NoteKind.CHECKPOINT: self.step is not None,
            NoteKind.PROGRESS: self.millionths is not None,
            NoteKind.LINK: bool(self.name and self.url.startswith(("https://", "http://"))),
        }
        if not wanted[self.kind]:
            raise ValueError(f"a note of the kind {self.kind} lacks its value")
        return self


class RefusedNotes(_Part):
    """Notes of an attempt with one problem, how many: `message` tells of the latest."""

    attempt: UUID
    problem: NoteProblem
    message: Sentence
    count: Annotated[int, Field(ge=1, le=2**31 - 1)]


class NotesReport(_Message):
    """What attempts said since the last time, the newest of each kind; sent at most twice a second."""

    type: Literal["notes"] = "notes"
    notes: Annotated[tuple[NoteReport, ...], Field(max_length=MAX_NOTES)] = ()
    refused: Annotated[tuple[RefusedNotes, ...], Field(max_length=MAX_NOTES)] = ()


class Released(_Message):
    """An operator had the cluster let go of: all that Chamber ran there was stopped, and nothing of it is left. Sent
    last, after reports of what had ended by itself.
    """

    type: Literal["released"] = "released"


AgentMessage = Annotated[
    Hello | Heartbeat | Inventory | Observed | Discovered | UsageReport | NotesReport | Released,
    Field(discriminator="type"),
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
    assignments: tuple[DesiredAttempt, ...] = ()
    stop: tuple[StopOrder, ...] = ()
    forget: tuple[UUID, ...] = ()


class NamespaceBinding(_Part):
    """A namespace that is a team's: the agent makes and keeps it. `id` is that of the binding."""

    id: UUID
    namespace: Name
    team: Name


class Namespaces(_Message):
    """All namespaces that are bound here; after each hello, and when they have changed."""

    type: Literal["namespaces"] = "namespaces"
    version: Count
    bound: tuple[NamespaceBinding, ...] = ()


class Verdict(_Part):
    """What became of a discovered Job: the slug of the workload that it is, or why it is none; `note` where it was
    taken otherwise than it asked.
    """

    uid: Name
    workload: Word = ""
    refused: Sentence = ""
    note: Sentence = ""


class Verdicts(_Message):
    """The answer to a part of what was discovered."""

    type: Literal["verdicts"] = "verdicts"
    verdicts: Annotated[tuple[Verdict, ...], Field(max_length=MAX_JOBS)]


class Taken(_Part):
    """A report that the server has, or needs no more."""

    attempt: UUID
    sequence: Count


class Ack(_Message):
    """What the server took: reports, the generation of a whole inventory, that the cluster was released; after a hello
    or a heartbeat that has an epoch, the present one. With an inventory, `unbound` says which pools would have some of
    its nodes, were the cluster bound to them.
    """

    type: Literal["ack"] = "ack"
    reports: tuple[Taken, ...] = ()
    inventory: Count | None = None
    epoch: Annotated[Epoch | None, SINCE_0_2] = None
    released: Annotated[bool, SINCE_0_2] = False
    unbound: Annotated[Sentence, SINCE_0_2] = ""


class ErrorCode(StrEnum):
    """What was wrong, for the agent's reaction."""

    INVALID = "invalid"
    TOO_LARGE = "too-large"
    NOT_AUTHORISED = "not-authorised"
    SUPERSEDED = "superseded"
    NO_HELLO = "no-hello"
    INVENTORY_GAP = "inventory-gap"
    UNKNOWN_ATTEMPT = "unknown-attempt"
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


ServerMessage = Annotated[Desired | Ack | Namespaces | Verdicts | Error, Field(discriminator="type")]

ToAgent = Desired | Ack | Namespaces | Verdicts | Error
Message = (
    Hello | Heartbeat | Inventory | Observed | Discovered | UsageReport | NotesReport | Released | ToAgent
)
