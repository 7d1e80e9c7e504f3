"""Two web and two live processes behind the proxy, replaced one at a time: whoever asks meanwhile is answered."""

import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from rig import servers
from rig.deployment import Deployment, ServiceProcess
from tests.deployment_fixtures import started
from tests.proxies import proxied
from tests.test_deployment_proxy import TRUSTED, answers
from tests.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.nginx]


@pytest.fixture
def pairs(
    team: Deployment, tmp_path: Path
) -> Iterator[tuple[int, list[ServiceProcess], list[ServiceProcess]]]:
    """The port of HTTPS, both web processes and both live ones."""
    ports = servers.free_port(), servers.free_port()
    with (
        started(team, "web", **TRUSTED) as web,
        started(team, "web", **TRUSTED) as web_2,
        started(team, "live", **TRUSTED) as live,
        started(team, "live", **TRUSTED) as live_2,
        proxied(tmp_path, ports=ports, web=[web, web_2], live=[live, live_2]),
    ):
        until(lambda: answers(ports[1]), seconds=60)
        yield ports[1], [web, web_2], [live, live_2]


PAUSE_SECONDS = 0.05
"""Between two rounds of a client: somebody always asks, and the processes that start get the processor."""


class Clients:
    """Threads that ask again and again, and what they were answered."""

    def __init__(self, team: Deployment, port: int) -> None:
        self.answered: Counter[str] = Counter()
        self._stop = threading.Event()
        self._team, self._port = team, port
        self._threads = [threading.Thread(target=self._ask, args=[number]) for number in range(4)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def answered_since(self, count: int) -> bool:
        """Return whether more than so many were answered."""
        return sum(self.answered.values()) > count

    def _ask(self, number: int) -> None:
        headers = {"Authorization": f"Bearer {self._team.token('rosa')}"}
        with httpx.Client(
            base_url=f"https://localhost:{self._port}",
            verify=False,  # noqa: S501 - its own
            headers=headers,
            timeout=60,
        ) as client:
            while not self._stop.is_set():
                self._note("GET", client.get("/api/v1/me/"))
                # Refused by the server itself, whatever it is sent: a POST that nobody may send twice.
                self._note("POST", client.post("/api/v1/workloads/", json={"name": f"try-{number}"}))
                # By the live part, and at once.
                self._note("live", client.get("/api/v1/workloads/nobody-s/watch/"))
                self._stop.wait(PAUSE_SECONDS)

    def _note(self, what: str, answer: httpx.Response) -> None:
        self.answered[f"{what} {answer.status_code}"] += 1


def test_replacing_one_after_the_other_refuses_nobody(
    team: Deployment, pairs: tuple[int, list[ServiceProcess], list[ServiceProcess]]
) -> None:
    port, webs, lives = pairs
    with Clients(team, port) as clients:
        # While the second of a pair is away, all is answered by the first one, which was away before.
        for service in [*webs, *lives]:
            before = sum(clients.answered.values())
            assert service.stop() == 0
            # Those who ask meanwhile meet one process only.
            until(partial(clients.answered_since, before + 20))
            service.start()
            service.wait_for("/readyz")
    # A stream that a leaving process was asked for ends at once, empty: its reader comes again.
    assert set(clients.answered) - {"live 200"} == {"GET 200", "POST 422", "live 404"}, clients.answered
