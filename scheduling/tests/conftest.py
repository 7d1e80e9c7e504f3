"""Acme with a pool of 12 GPUs, and a scheduler that remembers nothing of the test before."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from agentlink.models import Cluster
from chamber.models import User
from scheduling import views, views_what_if
from scheduling.cycle import cycle, decide, lease, usage
from scheduling.explain import last_cycle, submission
from scheduling.reading import recent, snapshot
from scheduling.tests.factories import make_cluster, make_nodes
from scheduling.whatif import asking, freed
from teams.models import Pool, Role, Team
from teams.tests.factories import make_org, make_pool, make_team, make_user, member, set_share


@pytest.fixture(autouse=True)
def _scheduler_without_memory() -> Iterator[None]:
    """What the process keeps between cycles does not leak from one test into the next."""
    yield
    cycle.forget()
    lease.forget()
    snapshot.forget()
    usage.forget()
    last_cycle.forget()
    submission.forget()
    recent.forget()
    asking.forget()
    freed.forget()
    decide.forget()


@pytest.fixture(scope="session", autouse=True)
def _pages_wait_for_their_answers() -> Iterator[None]:
    """A loaded machine may take longer for an answer than somebody at a page is let wait for it."""
    with pytest.MonkeyPatch.context() as patch:
        for pages in (views, views_what_if):
            patch.setattr(pages, "WAIT_SECONDS", 60.0)
        yield


@dataclass
class Acme:
    """The tree, a pool of three nodes with four GPUs each, and somebody of each kind.

    acme                 admin
    ├── research r=8     owner, mate
    └── production r=4   outsider
    """

    root: Team
    research: Team
    production: Team
    pool: Pool
    cluster: Cluster
    admin: User
    owner: User
    mate: User
    outsider: User
    stranger: User


@pytest.fixture
def acme(db: None) -> Acme:
    root = make_org("Acme")
    research, production = make_team(root, "Research"), make_team(root, "Production")
    pool, cluster = make_pool("Main"), make_cluster()
    make_nodes(cluster, pool, 3)
    set_share(research, pool, gpus=8)
    set_share(production, pool, gpus=4)
    return Acme(
        root=root,
        research=research,
        production=production,
        pool=pool,
        cluster=cluster,
        admin=member(root, Role.ORG_ADMIN, "olga"),
        owner=member(research, Role.RESEARCHER, "rita"),
        mate=member(research, Role.RESEARCHER, "mara"),
        outsider=member(production, Role.RESEARCHER, "otto"),
        stranger=make_user("sven"),
    )
