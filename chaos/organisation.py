"""What the chaos plays on: a corner of the organisation with teams, pools and clusters of its own."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ADMIN = "olga"
EDITOR = "adam"
PROBER = "lena"
POOL, PROBES = "chaos", "probes"

# Team, GPUs reserved, bursting priority, who submits there.
TEAMS = (("alpha", 8, 2, "rosa"), ("beta", 6, 1, "vito"), ("gamma", 0, 3, "ines"))
LEAD = "tara"

# Cluster, machines in the pool, GPUs of each, how its agent keeps in touch.
CLUSTERS = (("east", 3, 4, "websocket"), ("west", 2, 4, "websocket"), ("north", 2, 2, "long-poll"))


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """What a cluster's agent is started with, and what it writes."""

    name: str
    transport: str
    folder: Path

    @property
    def nodes(self) -> Path:
        """The machines, as `chamber agent --simulate` reads them."""
        return self.folder / f"{self.name}.json"

    @property
    def token(self) -> Path:
        """The agent's secret."""
        return self.folder / f"{self.name}.token"

    @property
    def state(self) -> Path:
        """The simulated cluster itself."""
        return self.folder / f"{self.name}.state"

    @property
    def record(self) -> Path:
        """What really ran."""
        return self.folder / "records" / f"{self.name}.jsonl"


def make(url: str, token: str, folder: Path) -> tuple[ClusterFiles, ...]:
    """Make teams, pools, shares, members and clusters as the admin whose `token` it is; return the clusters."""
    with httpx.Client(
        base_url=f"{url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=30
    ) as api:
        for order, slug in enumerate((POOL, PROBES)):
            _post(
                api,
                "pools/",
                {"name": slug.title(), "slug": slug, "node_selector": {"pool": slug}, "order": order},
            )
        root = next(team["slug"] for team in _get(api, "teams/")["results"] if team["depth"] == 0)
        _post(api, "teams/", {"name": "Chaos", "slug": POOL, "parent": root})
        for name, gpus, weight, member in TEAMS:
            _post(
                api,
                "teams/",
                {"name": name.title(), "slug": name, "parent": POOL, "bursting_priority": weight},
            )
            _post(api, f"teams/{name}/members/", {"who": member, "role": "researcher"})
            _reserve(api, name, gpus)
        _post(api, "teams/", {"name": "Probe", "slug": PROBES, "parent": POOL})
        _post(api, f"teams/{PROBES}/members/", {"who": PROBER, "role": "researcher"})
        _post(api, f"teams/{POOL}/members/", {"who": LEAD, "role": "lead"})
        _post(api, f"teams/{POOL}/members/", {"who": EDITOR, "role": "admin"})
        return tuple(
            _cluster(api, ClusterFiles(name, transport, folder), nodes, gpus)
            for name, nodes, gpus, transport in CLUSTERS
        )


def _reserve(api: httpx.Client, team: str, gpus: int) -> None:
    answer = api.patch(
        f"teams/{team}/shares/{POOL}/", json={"reservation": gpus}, headers={"If-Match": '"0"'}
    )
    answer.raise_for_status()


def _cluster(api: httpx.Client, files: ClusterFiles, nodes: int, gpus: int) -> ClusterFiles:
    """Connect a cluster: its machines share a pool, and one more of each cluster is for probes alone."""
    name = files.name
    machines = [_node(name, f"{name}-{index}", gpus, POOL) for index in range(nodes)]
    files.nodes.write_text(json.dumps([*machines, _node(name, f"{name}-probe", 1, PROBES)]))
    files.token.touch(mode=0o600)
    body = {"name": name, "backend": "simulated", "pools": [POOL, PROBES]}
    files.token.write_text(_post(api, "clusters/", body)["token"])
    files.record.parent.mkdir(exist_ok=True)
    return files


def _node(cluster: str, name: str, gpus: int, pool: str) -> dict[str, Any]:
    devices = [{"index": index, "gpu_type": "H100", "memory_mib": 81_920} for index in range(gpus)]
    return {"name": name, "labels": {"pool": pool, "zone": cluster}, "devices": devices}


def _get(api: httpx.Client, path: str) -> Any:
    return api.get(path).raise_for_status().json()


def _post(api: httpx.Client, path: str, body: dict[str, Any]) -> Any:
    answer = api.post(path, json=body)
    if answer.is_error:
        raise RuntimeError(f"{path} was answered {answer.status_code}: {answer.text[:500]}")
    return answer.json()
