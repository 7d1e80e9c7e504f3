"""Fragments of live pages, rendered once for all who would be shown the same.

A thousand open pages fetch their parts again after each change. Whoever holds the same roles on the same teams is shown
the same, so an answer is kept for ten seconds, by address and kind of viewer, with the versions of the topics that it
shows. A page says which versions it was told of (`X-Chamber-Heard`); a kept answer that is at least as new is what it
wants, and costs no query: neither for the part, nor for session, user and roles, which are remembered for a minute as
long as nothing was announced of the session, the user, or who may do what. Of Redis only these versions are asked,
where the process has the rest in its memory (`chamber.remembered`).

What is kept holds no cookie and no token. Where the cache is away, everything is rendered as if there were none.
"""

import hashlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.core.cache import cache
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified

from chamber import __version__, live, sessions
from chamber.http import Watched, wants_fragment
from chamber.remembered import Remembered, safely
from scheduling.explain import silence
from teams.permissions import roles_by_path

Answer = TypeVar("Answer")

KEPT_SECONDS = 10
VIEWER_SECONDS = 60
"""As often as sockets are looked at: a change of session, user or roles may have been announced in vain."""
USER_SECONDS = SHARED_SECONDS = 86_400
ETAG_SECONDS = 60
"""A page gets its part anew once in this time though no topic changed: an announcement may have been lost."""
RENDER_SECONDS = 2.0
"""How long others wait for who renders the same part."""
LOOK_AGAIN_SECONDS = 0.1
LONGEST_ADDRESS = 500
MOST_HEARD = 100


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who asks, as far as it matters here: whose roles are the same are of one kind.

    `versions` are those of the session, of who has which role, and of the user: as long as they stay, this holds.
    """

    user_id: UUID
    kind: str
    versions: tuple[int, ...]

    @classmethod
    def of(cls, user: Any, versions: tuple[int, ...]) -> "Viewer":
        """Return the kind of a user whose request was just answered."""
        roles = sorted((path, sorted(roles)) for path, roles in roles_by_path(user).items())
        return cls(user.pk, _digest(repr(roles), str(user.is_superuser)), versions)


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer with the versions of what it shows."""

    body: bytes
    headers: dict[str, str]
    etag: str
    watched: Watched

    def suits(self, viewer: Viewer, heard: Mapping[str, int]) -> bool:
        """Return whether this is the viewer's to see, and as new as what the page was told of, or as what there is."""
        if self.watched.never == viewer.user_id or self.watched.only not in {None, viewer.user_id}:
            return False
        silent = [topic for topic in self.watched.topics if topic not in heard]
        least = dict(heard) | dict(zip(silent, live.versions(*silent), strict=True))
        return live.UNKNOWN not in self.watched.versions and all(
            number >= least[topic] != live.UNKNOWN
            for topic, number in zip(self.watched.topics, self.watched.versions, strict=True)
        )

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Return the answer; 304 where the page has just this."""
        if request.headers.get("If-None-Match") == self.etag:
            response: HttpResponse = HttpResponseNotModified()
            for name in self.headers.keys() & {"Vary", "Cache-Control"}:
                response[name] = self.headers[name]
        else:
            response = HttpResponse(self.body, headers=self.headers)
        response["ETag"] = self.etag
        return response


_owners, _viewers = Remembered("viewers", UUID), Remembered("viewers", Viewer)
_parts, _shared = Remembered("parts", KeptAnswer), Remembered("parts", bool)


class FragmentMiddleware:
    """Stands before sessions and sign-in, and what adds headers: a kept answer is given without, and has them."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer from what is kept, or keep what is answered."""
        session_key = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
        address = _address(request) if request.method == "GET" and wants_fragment(request) else ""
        if not address or not session_key:
            return self.get_response(request)
        session = _Session(session_key)
        if session.viewer is None:
            session.look()
        if session.viewer is None:
            return self._render(request, address, session)
        return self._found_or_rendered(request, address, session, session.viewer)

    def _found_or_rendered(
        self, request: HttpRequest, address: str, session: "_Session", viewer: Viewer
    ) -> HttpResponse:
        """Answer what is kept; of those who find nothing, one renders and the others wait for it."""
        heard = _heard(request.headers.get("X-Chamber-Heard", ""))
        kept = _find(address, viewer, heard)
        if kept is not None:
            return kept.answer(request)
        if not _shared.find(_shared_key(address)):
            return self._render(request, address, session)
        with _turn(
            f"rendering:{_digest(address, viewer.kind)}", lambda: _find(address, viewer, heard)
        ) as found:
            return found.answer(request) if found else self._render(request, address, session)

    def _render(self, request: HttpRequest, address: str, session: "_Session") -> HttpResponse:
        """Have the views answer, and keep what may be kept for those to whom it would be answered."""
        response = self.get_response(request)
        watched: Watched | None = getattr(response, "watched", None)
        user = getattr(request, "user", None)
        if response.status_code != 200 or watched is None or user is None or not user.is_authenticated:
            return response
        # By the roles that the answer was rendered with, whatever was remembered before.
        viewer = Viewer.of(user, session.versions)
        if viewer != session.viewer:
            session.remember(viewer)
        watched = watched.seen_by(viewer.user_id)
        minute = str(time.time() // ETAG_SECONDS)
        # What falls silent is announced by nobody but the live part, which may be what is away.
        etag = f'"{_digest(address, viewer.kind, repr(watched), minute, silence.mark())}"'
        kept = KeptAnswer(response.content, dict(response.items()), etag, watched)
        _keep(kept, address, viewer)
        answer = kept.answer(request)
        answer.cookies = response.cookies
        return answer


def alike(name: str, watched: Watched, read: Callable[[], Answer], kind: type[Answer]) -> Answer:
    """Return what `read` returned at these versions: what is the same whoever looks, for all kinds of viewers; of a
    `kind` that JSON can hold.

    `watched` names every topic that announces a change of it. Nothing that depends on the reader may be in it.
    """
    if live.UNKNOWN in watched.versions:
        return read()
    kept, key = Remembered("parts", kind), f"alike:{name}:{_digest(watched.heard)}"
    with _alone(key):
        found = kept.find(key)
        if found is not None:
            return found
        answer = read()
        kept.set(key, answer, KEPT_SECONDS)
        return answer


@contextmanager
def _turn(name: str, look: Callable[[], KeptAnswer | None]) -> Iterator[KeptAnswer | None]:
    """Give what `look` finds once another has rendered it; None to the one whose turn it is to render.

    Within the process others wait without looking; one of each process looks a few times a second what others did.
    """
    deadline = time.monotonic() + RENDER_SECONDS
    mine = False
    with _alone(name):
        try:
            while not (found := look()) and time.monotonic() < deadline:
                mine = safely(lambda: cache.add(name, 1, RENDER_SECONDS), otherwise=True)
                if mine:
                    break
                time.sleep(LOOK_AGAIN_SECONDS)
            yield found
        finally:
            if mine:
                safely(lambda: cache.delete(name), otherwise=False)


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Wait for the others of this process that do the same, at most for `RENDER_SECONDS`."""
    with _lock:
        lock = _locks.setdefault(name, _Lock())
    alone = lock.acquire(timeout=RENDER_SECONDS)
    try:
        yield
    finally:
        if alone:
            lock.release()


class _Lock:
    """A lock that is forgotten when nobody holds or awaits it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acquire, self.release = self._lock.acquire, self._lock.release


_lock = threading.Lock()
_locks: "weakref.WeakValueDictionary[str, _Lock]" = weakref.WeakValueDictionary()


class _Session:
    """What is remembered of a session: whose it was last, and, for as long as that holds, of which kind they are."""

    def __init__(self, key: str) -> None:
        self._key, self._topic = key, live.session_topic(key)
        self._viewer_key, self._user_key = _viewer_key(self._topic), f"viewer-id:{self._topic}"
        self._user_id: UUID | None = _owners.find(self._user_key)
        self.versions = self._versions()
        self.viewer: Viewer | None = None
        if self._holds:
            self.viewer = _viewers.find(
                self._viewer_key, suits=lambda viewer: viewer.versions == self.versions
            )

    def look(self) -> None:
        """Find out who asks, and remember it (3 queries; 2 more where it was not known whose versions to look at)."""
        if self._user_id is None:
            user = sessions.user_of(self._key)
            if user is None:
                return
            _owners.set(self._user_key, user.pk, USER_SECONDS)
            self._user_id = user.pk
            self.versions = self._versions()
        user = sessions.user_of(self._key) if self._holds else None
        if user is not None and user.pk == self._user_id:
            self.viewer = Viewer.of(user, self.versions)
            self.remember(self.viewer)

    def _versions(self) -> tuple[int, ...]:
        """Return the versions by which what is remembered holds; read before session, user and roles are."""
        if self._user_id is None:
            return ()
        return tuple(live.versions(self._topic, "teams", f"user:{self._user_id}"))

    @property
    def _holds(self) -> bool:
        return bool(self.versions) and live.UNKNOWN not in self.versions

    def remember(self, viewer: Viewer) -> None:
        """Keep who asks; their kind only where it was known before whose versions to look at."""
        if viewer.user_id != self._user_id:
            _owners.set(self._user_key, viewer.user_id, USER_SECONDS)
        elif live.UNKNOWN not in viewer.versions:
            _viewers.set(self._viewer_key, viewer, VIEWER_SECONDS)


def forget_session(key: str) -> None:
    """Drop what is remembered of a session that ends; what other processes have ends with its version."""
    _viewers.delete(_viewer_key(live.session_topic(key)))


def _keep(kept: KeptAnswer, address: str, viewer: Viewer) -> None:
    """Keep an answer, and remember for longer that at this address there is something to share."""
    if live.UNKNOWN in kept.watched.versions:
        return
    _parts.set(_key(address, viewer, kept.watched.only), kept, KEPT_SECONDS)
    if kept.watched.only is None and not _shared.find(_shared_key(address)):
        _shared.set(_shared_key(address), True, SHARED_SECONDS)


def _find(address: str, viewer: Viewer, heard: Mapping[str, int]) -> KeptAnswer | None:
    """Return the kept answer that suits."""
    keys = _key(address, viewer, viewer.user_id), _key(address, viewer, None)
    return _parts.find(*keys, suits=lambda kept: kept.suits(viewer, heard))


def _address(request: HttpRequest) -> str:
    """Return what a part is kept by; "" where nothing is, as of a host that is refused further on."""
    try:
        address = f"{request.scheme}://{request.get_host()}{request.get_full_path()}"
    except DisallowedHost:
        return ""
    return address if len(address) <= LONGEST_ADDRESS else ""


def _viewer_key(topic: str) -> str:
    return f"viewer:{topic}"


def _shared_key(address: str) -> str:
    return f"shared:{_digest(address)}"


def _key(address: str, viewer: Viewer, only: UUID | None) -> str:
    return f"part:{_digest(address, viewer.kind, str(only))}"


def _heard(text: str) -> dict[str, int]:
    """Return the versions that a request names by topic; what is not understood is left out."""
    pairs = (entry.rpartition("=") for entry in text.split()[:MOST_HEARD])
    return {
        topic: int(number)
        for topic, _, number in pairs
        if number.isascii() and number.isdigit() and len(number) < 20
    }


def _digest(*parts: str) -> str:
    # While two versions run, neither reads what the other one kept, nor do pages take it for theirs.
    return hashlib.sha256("\0".join((__version__, *parts)).encode()).hexdigest()[:32]
