"""A cluster with two nodes of four GPUs each, in one pool, and somebody who submits."""

from dataclasses import dataclass

import pytest

from agentlink.models import Cluster
from agentlink.tests.factories import make_cluster, make_node
from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import make_org, make_pool, make_team, member


@dataclass
class Place:
    """Who submits, and where it may run."""

    team: Team
    owner: User
    pool: Pool
    cluster: Cluster


@pytest.fixture
def place(db: None) -> Place:
    """Return the place; its nodes are `n1` and `n2`."""
    org = make_org("Acme")
    team = make_team(org, "NLP")
    pool = make_pool("Main")
    cluster = make_cluster("east")
    for name in ("n1", "n2"):
        make_node(cluster, name, gpus=4, pool=pool)
    return Place(team, member(team, Role.RESEARCHER, "ada"), pool, cluster)
