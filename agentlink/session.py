"""The server's side of one conversation with an agent: messages in, messages out, no sockets.

The WebSocket consumer and its long-poll twin both drive this. All functions here are synchronous, make short
transactions, and answer whatever an agent sends: an `error` where it is wrong, never an exception.

What an agent was told is followed up: where a heartbeat shows that it did not arrive, it is told again; where the
agent is ahead of the tables (they were restored from a backup), or says hello by another name than it was heard, it
is asked to say hello, and begins with the full set.
"""

import logging
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from agentlink import (
    adoption,
    assignments,
    bindings,
    desired,
    epochs,
    inventory,
    noted,
    protocol,
    refusals,
    releasing,
    reports,
    spaces,
    usage,
)
from agentlink.models import AgentToken, Cluster
from agentlink.protocol import (
    Ack,
    Discovered,
    Error,
    ErrorCode,
    Heartbeat,
    Hello,
    InvalidMessage,
    Inventory,
    Namespaces,
    NotesReport,
    Observed,
    Released,
    ToAgent,
    UsageReport,
    Verdicts,
)
from agentlink.protocol.releases import fitted
from agentlink.querysets import DISCONNECTED_AFTER
from chamber import live, logs
from chamber.transactions import is_unavailable

logger = logging.getLogger(__name__)

SEEN_EVERY = timedelta(seconds=2)
"""How exactly "last seen" is kept: not a write for each message."""
SKEW_STEP_MS = 1000
"""How exactly a clock's skew is kept."""
MOST_SKEW_MS = 2**31 - 1
"""More, 24 days, is not told apart."""
OF_THE_API = ("chb_", "chs_")
"""With these the tokens of people and of service accounts begin, which open nothing here."""
CHECK_SECONDS = 1.0
"""How long a token that was valid is taken for valid, unless an announcement has it looked at again."""

_told = logs.Seldom(every_seconds=10)
"""Of tokens that are unknown, which may be tried any number of times."""
_expired = logs.Lasting()
"""Of tokens that were valid once: their agents come again and again."""


class _Begun(NamedTuple):
    """A conversation, and whether its hello was a farewell."""

    connection: UUID
    is_farewell: bool


_begun: dict[UUID, _Begun] = {}
"""By cluster: the conversation whose hello this process answered. Only that is gone on with by a heartbeat alone:
a restore of the database starts the processes anew, and every agent with them."""


@dataclass(slots=True)
class Answer:
    """What to send back, in order. `closes` is the error after which the conversation ends."""

    messages: list[ToAgent] = field(default_factory=list)

    @property
    def closes(self) -> ErrorCode | None:
        """Return why the conversation is over; None while it goes on."""
        errors = (message for message in self.messages if isinstance(message, Error))
        return next((error.code for error in errors if error.code in protocol.CLOSE_CODES), None)


def authenticate(header: str) -> AgentToken | Error:
    """Return the token that an `Authorization` header carries, with its cluster, or why it opens nothing."""
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        return _no_entry("Send the cluster's agent token as `Authorization: Bearer ...`.")
    if secret.strip().startswith(OF_THE_API):
        return _no_entry(
            "This is a token of the API. The agents' link takes a cluster's own token (cha_…), of the cluster's page."
        )
    tokens = AgentToken.objects.select_related("cluster")
    token = tokens.filter(token_hash=AgentToken.hash_of(secret.strip())).first()
    now = timezone.now()
    if token is None:
        if _told.due():
            logger.warning("An agent came with a token that is unknown: %s…", secret.strip()[:12])
        return _no_entry("The agent token is unknown.")
    if not token.is_valid(now):
        with logs.bind(cluster=token.cluster.name):
            if _expired.due(token.prefix):
                logger.warning("A token that is not valid any more was used: %s…", token.prefix)
        return _no_entry("The agent token was revoked, or has expired.")
    AgentToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def _no_entry(message: str) -> Error:
    return Error(code=ErrorCode.NOT_AUTHORISED, message=message)


class Session:
    """One conversation. `sent` is the desired generation up to which the agent was told."""

    check_seconds = CHECK_SECONDS

    def __init__(self, token: AgentToken, *, polls: bool = False) -> None:
        self._polls = polls
        self.cluster_id: UUID = token.cluster_id
        self._cluster_name = token.cluster.name
        self._token_id = token.pk
        self._token: AgentToken | None = None
        self._checked_at = 0.0
        self._connection: UUID | None = None
        self._is_farewell = False
        self._greeted = False
        self._sent = 0
        self._sent_at_last_beat = 0
        self._namespaces_sent = 0
        self._wrong = logs.Lasting()

    def take(self, data: str | bytes) -> Answer:
        """Return the answer to one message, with what is new for the agent besides."""
        with logs.bind(cluster=self._cluster_name):
            try:
                closed, cluster = self._check()
                if cluster is None:
                    return closed
                message = protocol.from_agent(data)
                if isinstance(message, InvalidMessage):
                    return self._reject(cluster, message.as_error())
                return self._take(cluster, message)
            except DatabaseError as error:
                logger.exception("A message of its agent cannot be taken now.")
                return Answer([_fault("message", error)])

    def _take(self, cluster: Cluster, message: protocol.Message) -> Answer:
        try:
            answer = self._handle(cluster, message)
        except Exception as error:
            logger.exception("A %s of its agent could not be taken.", message.type)
            return self._reject(cluster, _fault(message.type, error))
        if answer.closes is None and self._connection is not None:  # before its hello it may be any cluster's
            if not self._is_farewell:
                self._seen(cluster)
            answer.messages += self._news(cluster)
        answer.messages = fitted(answer.messages, cluster.agent_version)
        return answer

    def news(self) -> Answer:
        """Return what is new for the agent since it was last told, or that the conversation is over."""
        with logs.bind(cluster=self._cluster_name):
            try:
                closed, cluster = self._check(now=True)
            except DatabaseError:
                logger.exception("Its agent cannot be told anything now.")
                return Answer()
            if cluster is None:
                return closed
            return Answer(fitted(self._news(cluster), cluster.agent_version))

    def _check(self, *, now: bool = False) -> tuple[Answer, Cluster | None]:
        """Return the cluster where the token still holds and no newer conversation took over.

        One query, at most every second unless it is to be `now`.
        """
        token = self._token
        if token is None or now or time.monotonic() - self._checked_at > self.check_seconds:
            token = AgentToken.objects.select_related("cluster").filter(pk=self._token_id).first()
            self._token, self._checked_at = token, time.monotonic()
        if token is None or not token.is_valid(timezone.now()):
            return Answer([_no_entry("The agent token was revoked, or has expired.")]), None
        if self._connection is not None and token.cluster.connection != self._connection:
            return Answer([_superseded()]), None
        return Answer(), token.cluster

    def refuse(self, error: Error) -> Answer:
        """Answer what never became a message."""
        with logs.bind(cluster=self._cluster_name):
            try:
                closed, cluster = self._check()
                return closed if cluster is None else self._reject(cluster, error)
            except DatabaseError:
                logger.exception("What its agent sent cannot be counted now.")
                return Answer([error])

    def _reject(self, cluster: Cluster, *errors: Error) -> Answer:
        """Count what was wrong, log it within bounds, and say so."""
        for error in errors:
            # A fault is the server's own, and logged with its cause.
            if error.code is not ErrorCode.FAULT and self._wrong.due(error.message):
                logger.warning("Its agent sent what cannot be taken: %s", error.message)
        Cluster.objects.filter(pk=cluster.pk).update(rejected_messages=F("rejected_messages") + len(errors))
        sent_away = (error for error in errors if error.about == "hello" and error.code != ErrorCode.FAULT)
        if hello := next(sent_away, None):
            refusals.note(cluster, hello)
        return Answer(list(errors))

    def _handle(self, cluster: Cluster, message: protocol.Message) -> Answer:
        if isinstance(message, Hello):
            return self._hello(cluster, message)
        if isinstance(message, Heartbeat):
            return self._heartbeat(cluster, message)
        if self._connection is None:
            text = f"Say hello before {message.type}."
            return self._reject(cluster, Error(code=ErrorCode.NO_HELLO, message=text, about=message.type))
        return self._tells(cluster, message)

    def _tells(self, cluster: Cluster, message: protocol.Message) -> Answer:
        """Take in what an agent tells after its hello."""
        if isinstance(message, Observed):
            return self._observed(cluster, message)
        if isinstance(message, Inventory):
            return self._inventory(cluster, message)
        if isinstance(message, UsageReport):
            errors = usage.take(cluster, message, now=timezone.now())
            return self._reject(cluster, *errors) if errors else Answer()
        if isinstance(message, NotesReport):
            errors = noted.take(cluster, message, now=timezone.now())
            return self._reject(cluster, *errors) if errors else Answer()
        if isinstance(message, Released):
            return self._released(cluster)
        assert isinstance(message, Discovered)  # noqa: S101 - what agents may send ends here
        verdicts = adoption.take(cluster, message)
        return Answer([Verdicts(verdicts=verdicts)] if verdicts else [])

    def _hello(self, cluster: Cluster, message: Hello) -> Answer:
        """Begin, or begin again: the newest hello's connection is the one that counts from now on."""
        if foreign := refusals.of(cluster, message.cluster_uid):
            return self._reject(cluster, foreign)
        epoch: list[ToAgent] = []
        if message.epoch is not None:
            epoch.append(Ack(epoch=epochs.advance(cluster.pk, message.epoch)[0]))
        now = timezone.now()
        begun = {
            "connection": message.connection,
            "hello_at": message.at,
            "uid": message.cluster_uid,
            "agent_version": message.agent_version,
            "protocol": message.protocol,
            "seen_generation": 0,
            "inventory_generation": 0,
            "inventory_part": 0,
        }
        if not message.farewell:  # an agent that says farewell takes no work, and is not in touch
            begun |= {"connected": True, "released_at": None, "last_seen_at": now, "polls": self._polls}
        with transaction.atomic():
            if not _not_older(cluster.pk, message, now).update(**begun):
                return self._reject(cluster, _superseded())
            live.announce("pools", "overview", f"link:{cluster.pk}")
            if not cluster.connected and not message.farewell:
                live.ring()
        for name, value in begun.items():
            setattr(cluster, name, value)
        _begun[cluster.pk] = _Begun(message.connection, message.farewell)
        self._connection, self._is_farewell = message.connection, message.farewell
        self._greeted = True
        if message.farewell:
            logger.info("An operator lets go of it, by an agent %s.", message.agent_version)
        else:
            sizes = message.nodes, message.gpus
            logger.info("Its agent %s said hello: %d nodes, %d GPUs.", message.agent_version, *sizes)
        messages = desired.full_set(cluster.pk, message.connection)
        self._sent = messages[-1].generation
        self._sent_at_last_beat = 0
        self._namespaces_sent = 0
        return Answer([*messages, *epoch])

    def _heartbeat(self, cluster: Cluster, message: Heartbeat) -> Answer:
        """Go on: of a long poll, which has no other memory, from the generation that the agent says it has."""
        if self._connection is None:
            begun = _conversation(cluster)
            if self._greeted or begun is None:
                return self._begin_again(cluster)
            if cluster.connection != message.connection:
                return Answer([_superseded()])
            self._connection, self._is_farewell = begun
            self._sent = message.generation
        elif self._connection != message.connection:
            return self._begin_again(cluster)
        epoch: list[ToAgent] = []
        if message.epoch is not None:
            present, restored = epochs.advance(cluster.pk, message.epoch)
            if restored:
                return self._begin_again(cluster)
            epoch.append(Ack(epoch=present))
        generation = Cluster.objects.values_list("desired_generation", flat=True).get(pk=cluster.pk)
        if message.generation > generation:
            return self._begin_again(cluster)
        if 0 < message.generation < self._sent_at_last_beat:
            self._sent = message.generation  # what was sent before the last heartbeat did not arrive
        self._sent_at_last_beat = self._sent
        self._namespaces_sent = message.namespaces
        if message.generation > cluster.seen_generation:
            row = Cluster.objects.filter(pk=cluster.pk, seen_generation__lt=message.generation)
            row.update(seen_generation=message.generation)
            cluster.seen_generation = message.generation
        _note_clock(cluster, message)
        assignments.let_go_waiting(cluster.pk, at=timezone.now())
        return Answer(epoch)

    def _begin_again(self, cluster: Cluster) -> Answer:
        """Ask for another hello: what the agent says it knows is not what it was told from here."""
        self._connection = None
        text = "What this agent was told is not known here any more; say hello again."
        return self._reject(cluster, Error(code=ErrorCode.NO_HELLO, message=text, about="heartbeat"))

    def _observed(self, cluster: Cluster, message: Observed) -> Answer:
        try:
            outcome = reports.take(cluster, message, connection=self._connection)
        except reports.Superseded:
            return Answer([_superseded()])
        answer = self._reject(cluster, *outcome.errors) if outcome.errors else Answer()
        if outcome.taken:
            answer.messages.append(Ack(reports=tuple(outcome.taken)))
        return answer

    def _released(self, cluster: Cluster) -> Answer:
        """Take in that the cluster was let go of: the conversation is over, and no agent is there any more."""
        if not releasing.take(cluster, connection=self._connection):
            return Answer([_superseded()])
        begun = _begun.get(cluster.pk)
        if begun is not None and begun.connection == self._connection:
            del _begun[cluster.pk]
        self._connection = None
        logger.info("An operator let go of it.")
        return Answer([Ack(released=True)])

    def _inventory(self, cluster: Cluster, message: Inventory) -> Answer:
        if not inventory.take(cluster.pk, message, connection=self._connection):
            text = f"Part {message.part} of inventory {message.generation} came without the part before it."
            error = Error(
                code=ErrorCode.INVENTORY_GAP, message=f"{text} Send all of it again.", about="inventory"
            )
            return self._reject(cluster, error)
        if not message.last:
            return Answer()
        unbound = " ".join(bindings.refused(cluster.pk).get(cluster.pk, []))
        return Answer([Ack(inventory=message.generation, unbound=unbound[: protocol.MAX_SENTENCE])])

    def _seen(self, cluster: Cluster) -> None:
        """Note that the agent is there, at most every two seconds while it is."""
        now = timezone.now()
        stale = Q(connected=False) | Q(last_seen_at=None) | Q(last_seen_at__lt=now - SEEN_EVERY)
        if cluster.connected and cluster.last_seen_at is not None and cluster.last_seen_at > now - SEEN_EVERY:
            return
        with transaction.atomic():
            row = Cluster.objects.filter(stale, pk=cluster.pk, released_at=None)
            row.update(connected=True, last_seen_at=now)
            if not cluster.connected:
                live.announce("pools", "overview")
                live.ring()
        cluster.connected, cluster.last_seen_at = True, now

    def _news(self, cluster: Cluster) -> list[ToAgent]:
        """Return what is new; nothing where that fails: it is tried again with the agent's next message.

        Nothing either while the agent has no full set yet: it says so by a heartbeat with generation 0.
        """
        if self._connection is None or not self._sent:
            return []
        try:
            messages = desired.since(self.cluster_id, self._sent, self._connection)
            bindings = self._bindings(cluster)
        except desired.WentBack:
            self._connection = None
            text = "The server's database was put back to an earlier state; say hello again."
            return [Error(code=ErrorCode.NO_HELLO, message=text)]
        except Exception:
            logger.exception("What is new could not be told to its agent.")
            return []
        if messages:
            self._sent = messages[-1].generation
        return [*bindings, *messages]

    def _bindings(self, cluster: Cluster) -> list[Namespaces]:
        """Return which namespaces are bound, where the agent knows others; that they did not arrive, it says."""
        version = cluster.namespaces_version or 0
        if self._namespaces_sent == version:
            return []
        self._namespaces_sent = version
        return [spaces.told(cluster.pk, version)]


def _not_older(cluster_id: UUID, hello: Hello, now: datetime) -> QuerySet[Cluster]:
    """Return the cluster's row, or none where a live agent said hello later than this one was said.

    So what was recorded or held up on its way ends no conversation. Clocks that differ cost an agent 30 s at most: of
    one that is silent for so long any hello takes over.
    """
    silent = Q(connected=False) | Q(last_seen_at=None) | Q(last_seen_at__lte=now - DISCONNECTED_AFTER)
    later = Q(hello_at=None) if hello.at is None else Q(hello_at=None) | Q(hello_at__lte=hello.at)
    return Cluster.objects.filter(silent | later, pk=cluster_id)


def _conversation(cluster: Cluster) -> _Begun | None:
    """Return the cluster's conversation where a heartbeat alone goes on with it: not where it was let go of since."""
    begun = _begun.get(cluster.pk)
    if begun is None or begun.connection != cluster.connection:
        return None
    return begun if begun.is_farewell or cluster.released_at is None else None


def _note_clock(cluster: Cluster, message: Heartbeat) -> None:
    """Store how far the agent's clock is before this server's, where that is other than it was by a second."""
    if message.at is None:
        return
    ahead = (message.at - timezone.now()) // timedelta(milliseconds=1)
    ahead = max(-MOST_SKEW_MS, min(MOST_SKEW_MS, ahead))
    if cluster.clock_ahead_ms is not None and abs(ahead - cluster.clock_ahead_ms) < SKEW_STEP_MS:
        return
    said = cluster.clock_problem
    Cluster.objects.filter(pk=cluster.pk).update(clock_ahead_ms=ahead)
    cluster.clock_ahead_ms = ahead
    if cluster.clock_problem != said:
        live.announce("pools")


def _fault(about: str, error: Exception) -> Error:
    text = "The server failed on this message; send it again."
    if is_unavailable(error):
        text = "The server's database cannot be used now; send the message again."
    return Error(code=ErrorCode.FAULT, message=text, about=about)


def _superseded() -> Error:
    return Error(
        code=ErrorCode.SUPERSEDED,
        message="Another agent of this cluster said hello later; only the newest is heard.",
    )
