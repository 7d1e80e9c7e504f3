"""How long it takes until everything works again: until a workload submitted now runs in each cluster."""

import asyncio
import itertools
import time
from contextlib import suppress
from typing import Any

import httpx

from chaos.organisation import CLUSTERS, PROBES

POLL_SECONDS = 0.1
REQUEST_SECONDS = 5.0
ARRIVED = frozenset({"running", "completed"})


class Probe:
    """Submits as somebody whose GPUs nobody else may use, one in each cluster."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._api = httpx.AsyncClient(base_url=f"{url}/api/v1/", headers=headers, timeout=REQUEST_SECONDS)
        self._numbers = itertools.count(1)

    async def seconds_until_all_works(self, most: float) -> float | None:
        """Return how long it took until a new workload ran in each cluster; None where `most` was not enough."""
        began, number = time.monotonic(), next(self._numbers)
        try:
            async with asyncio.timeout(most):
                await asyncio.gather(*(self._one(name, number) for name, *_ in CLUSTERS))
        except TimeoutError:
            return None
        return time.monotonic() - began

    async def _one(self, cluster: str, number: int) -> None:
        workload = {
            "name": f"probe-{cluster}-{number}",
            "team": PROBES,
            "pools": [PROBES],
            "priority": 50,
            "node_selector": {"zone": cluster},
            "image": "probe",
            "command": "sleep 0.2",
            "grace_seconds": 0,
        }
        made = await self._asked("POST", "workloads/", workload)
        while True:
            row = await self._asked("GET", f"workloads/{made['slug']}/")
            if row["status"] in ARRIVED:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _asked(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the answer, asking until there is one; with a key, so that a probe is submitted once."""
        headers = {"Idempotency-Key": body["name"]} if body else {}
        while True:
            with suppress(httpx.HTTPError):
                answer = await self._api.request(method, path, json=body, headers=headers)
                if answer.is_success:
                    return answer.json()
                if not answer.is_server_error:
                    raise RuntimeError(f"{path} was answered {answer.status_code}: {answer.text[:300]}")
            await asyncio.sleep(POLL_SECONDS)
