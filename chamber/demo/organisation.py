"""The example organisation: Acme's tree, its people, two pools, and three simulated clusters."""

import json
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import transaction

from agentlink.actions import create_cluster
from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.models import BackendKind, Cluster
from agentlink.protocol import DeviceReport, NodeReport
from chamber.demo.catalogue import make_catalogue
from chamber.demo.people import PASSWORD, PEOPLE
from chamber.demo.supervisor import DemoCluster
from chamber.models import User
from teams import actions
from teams.actions import ShareEdit, TeamEdit
from teams.actors import Actor
from teams.models import Pool, Team
from teams.values import ShareChanges

SETUP = Actor.system("demo set-up")

# Team, parent, bursting priority, GPUs reserved in the pool `main`.
TEAMS = (
    ("Research", "Acme", 3, 48),
    ("NLP", "Research", 2, 32),
    ("Vision", "Research", 1, 16),
    ("Production", "Acme", 2, 32),
    ("Inference", "Production", 1, 16),
    ("Training", "Production", 1, 16),
)

H100 = ("H100", 81_920)
L40S = ("L40S", 49_152)


@dataclass(frozen=True, slots=True)
class DemoSetting:
    """What the process needs to know of the organisation that was set up."""

    clusters: tuple[DemoCluster, ...]
    seed: int


def set_up() -> DemoSetting:
    """Make what is not there yet, and return the clusters with the tokens of their agents."""
    if not Team.objects.filter(depth=0).exists():
        with transaction.atomic():
            make_organisation()
    tokens = _tokens(settings.DATA_DIR / "agent-tokens.json")
    make_catalogue(by=SETUP)
    clusters = tuple(
        DemoCluster(name, tokens[name], _simulation(name, nodes)) for name, nodes in _machines().items()
    )
    return DemoSetting(clusters=clusters, seed=20)


def greeting(url: str) -> str:
    """Return the line with the address and a sign-in for each role."""
    people = ", ".join(f"{name}/{PASSWORD} ({words})" for name, _, _, _, words in PEOPLE if words)
    return f"Chamber runs at {url} (Ctrl-C stops it). Sign in as {people}."


def make_organisation(password: str = PASSWORD) -> None:
    """Make the tree, the people, the pools and the shares, through the same actions as everybody."""
    teams = {"Acme": actions.create_organisation(by=SETUP, name="Acme")}
    for name, parent, weight, _ in TEAMS:
        teams[name] = actions.create_team(by=SETUP, parent=teams[parent], name=name, bursting_priority=weight)
    encoded = make_password(password)  # once: it is the same word for all, and slow on purpose
    for username, first_name, team, role, _ in PEOPLE:
        email = f"{username}@acme.example"
        User.objects.create(username=username, first_name=first_name, email=email, password=encoded)
        actions.add_member(by=SETUP, team=teams[team], who=username, role=role)
    main = actions.create_pool(
        by=SETUP,
        values={
            "name": "Main",
            "slug": "main",
            "order": 1,
            "node_selector": {"pool": "main"},
            "clusters": ["east", "west"],
            "topology": ["zone"],
        },
    )
    actions.create_pool(
        by=SETUP,
        values={
            "name": "Shared",
            "slug": "shared",
            "order": 2,
            "node_selector": {"pool": "shared"},
            "clusters": ["lab"],
        },
    )
    actions.set_many(by=SETUP, edits=[_reservation(teams[name], main, gpus) for name, _, _, gpus in TEAMS])


def _reservation(team: Team, pool: Pool, gpus: int) -> TeamEdit:
    share = ShareEdit(pool=pool, version=0, changes=ShareChanges(reservation_milli=gpus * 1000))
    return TeamEdit(team=team, version=team.version, shares=(share,))


def _tokens(path: Path) -> dict[str, str]:
    """Return each cluster's agent token: kept beside the data, made where there is none."""
    tokens: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    for name in _machines():
        if not Cluster.objects.filter(name=name).exists():
            tokens[name] = create_cluster(by=SETUP, name=name, backend=BackendKind.SIMULATED).secret
    path.touch(mode=0o600)
    path.write_text(json.dumps(tokens))
    return tokens


def _simulation(name: str, nodes: list[NodeReport]) -> SimulatedCluster:
    """Return the cluster as it was left: what ran goes on when the demo starts again."""
    return SimulatedCluster(nodes, name=name, state_file=settings.DATA_DIR / f"cluster-{name}.json")


def _machines() -> dict[str, list[NodeReport]]:
    """Return the nodes of each cluster: 100 GPUs of one type in two clusters, and 16 smaller ones to share."""
    return {
        "east": [_node(f"east-{index}", 8, H100, pool="main") for index in range(7)],
        "west": [_node(f"west-{index}", 8 if index < 5 else 4, H100, pool="main") for index in range(6)],
        "lab": [_node(f"lab-{index}", 4, L40S, pool="shared") for index in range(4)],
    }


def _node(name: str, gpus: int, model: tuple[str, int], *, pool: str) -> NodeReport:
    gpu_type, memory_mib = model
    return NodeReport(
        name=name,
        cpu_milli=gpus * 12_000,
        memory_mib=gpus * 131_072,
        labels={"pool": pool, "zone": name.split("-", maxsplit=1)[0]},
        devices=tuple(
            DeviceReport(index=index, gpu_type=gpu_type, memory_mib=memory_mib) for index in range(gpus)
        ),
    )
