"""A part of the cluster kept in memory: listed once, then followed by a watch, for ever."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic, NoReturn, TypeVar

from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import Forbidden, KubeError, NotFound, Unreachable, VersionGone
from agentlink.agent.kube.resources import JsonObject, Resource, key_of
from agentlink.agent.unreached import next_try
from chamber.logs import Lasting

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
ABSENT_PAUSE_SECONDS = 300.0
"""How often a kind of objects that the API server does not know is looked for."""
LASTING_SECONDS = 5.0
"""A watch that lasted this long was none of a series of failures."""
MOST_RESUMED = 3
"""After so many failures in a row the version that the watch goes on from is doubted, and all is listed anew."""
MOST_FORBIDDEN = 10
"""After so many refusals in a row, what may be missing is asked for as seldom as what there is none of."""


class Reflector(Generic[T]):
    """The objects of one kind, trimmed, by `namespace/name`; `run` keeps them up to date.

    `trim` returns what is kept of an object, or None where nothing is. `on_change` is called with the key, what was
    kept and what is kept now (None: nothing), where these differ. `synced` is set once all were seen. With
    `optional`, an API server that does not know the kind, or will not let it be read, counts as having none of it.
    `error` is why it is out of date, if it is.
    """

    def __init__(
        self,
        kube: Kube,
        resource: Resource,
        trim: Callable[[JsonObject], T | None],
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        optional: bool = False,
        on_change: Callable[[str, T | None, T | None], None] | None = None,
    ) -> None:
        self.items: dict[str, T] = {}
        self.synced = asyncio.Event()
        self.error: KubeError | None = None
        self._kube, self._resource, self._trim = kube, resource, trim
        self._namespace, self._labels, self._fields = namespace, labels, fields
        self._optional, self._on_change = optional, on_change
        self._failing = Lasting()
        self._version = ""
        """What the watch goes on from; empty where all must be listed."""

    async def run(self) -> NoReturn:
        """Keep `items` up to date until cancelled, whatever the API server does."""
        failures = 0
        error: KubeError | None
        while True:
            began, error = time.monotonic(), None
            try:
                if not self._version:
                    await self._list()
                    began = time.monotonic()
                await self._watch()
            except VersionGone as gone:
                self._version, error = "", gone
            except KubeError as failed:
                error = self.error = failed
                if not isinstance(failed, Unreachable) or failures >= MOST_RESUMED:
                    self._version = ""
            failures = 0 if time.monotonic() - began > LASTING_SECONDS else failures + 1
            await asyncio.sleep(self._pause(error, failures))

    async def _list(self) -> None:
        """Take in all objects; what is not among them is gone."""
        seen: set[str] = set()
        version = ""
        async with aclosing(
            self._kube.pages(self._resource, self._namespace, self._labels, self._fields)
        ) as pages:
            async for page in pages:
                for body in page.items:
                    seen.add(key_of(body))
                    self._keep(key_of(body), self._read(body))
                version = page.version
        for key in self.items.keys() - seen:
            self._keep(key, None)
        self._version = version
        self._succeeded()
        self.synced.set()

    async def _watch(self) -> None:
        """Follow what happens until the watch ends."""
        async with aclosing(
            self._kube.watch(self._resource, self._version, self._namespace, self._labels, self._fields)
        ) as events:
            async for kind, body in events:
                self._succeeded()
                self._version = body["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    self._keep(key_of(body), None if kind == "DELETED" else self._read(body))

    def _succeeded(self) -> None:
        """Note that the API server answers, and say so where it did not."""
        self.error = None
        if self._failing.over() is not None:
            logger.info("%s can be watched again.", self._resource.plural)

    def _read(self, body: JsonObject) -> T | None:
        """Return what is kept of an object; of one that cannot be read, what was: people write what stands in them."""
        try:
            return self._trim(body)
        except Exception:
            logger.exception("%s %s cannot be read.", self._resource.kind, key_of(body))
            return self.items.get(key_of(body))

    def _keep(self, key: str, new: T | None) -> None:
        old = self.items.get(key)
        if new is None:
            self.items.pop(key, None)
        else:
            self.items[key] = new
        if self._on_change is not None and old != new:
            self._on_change(key, old, new)

    def _pause(self, error: KubeError | None, failures: int) -> float:
        """Return how long to wait before going on; say so where something is wrong."""
        if self._optional and isinstance(error, NotFound):
            self.synced.set()
            return ABSENT_PAUSE_SECONDS
        if self._optional and isinstance(error, Forbidden) and failures >= MOST_RESUMED:
            self.synced.set()  # not at once: API servers that are just starting forbid what they will allow
            if failures >= MOST_FORBIDDEN:
                return ABSENT_PAUSE_SECONDS
        longest = min(FIRST_PAUSE_SECONDS * (1 << min(failures, 16)), LONGEST_PAUSE_SECONDS)
        pause = random.uniform(0.0, longest)  # noqa: S311 - guards nothing
        if error is not None and not isinstance(error, VersionGone) and self._failing.due(str(error)):
            logger.warning("%s cannot be watched: %s %s", self._resource.plural, error, next_try(pause))
        return pause
