"""Acme, with a researcher, a lead, an admin and an outsider: what most tests of teams stand on."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.test import Client
from rest_framework.test import APIClient

from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import bind, make_org, make_pool, make_team, make_user, member, set_share


@dataclass
class Acme:
    """The tree, its pool and somebody of each role.

    acme                      org_admin
    ├── research  r=48        admin, lead (of research), viewer
    │   ├── nlp     r=20      researcher
    │   └── vision  r=10
    └── production r=32       outsider (researcher there)
    """

    root: Team
    research: Team
    nlp: Team
    vision: Team
    production: Team
    pool: Pool
    org_admin: User
    admin: User
    lead: User
    researcher: User
    viewer: User
    outsider: User
    stranger: User


@pytest.fixture
def acme(db: None) -> Acme:
    root = make_org("Acme")
    research = make_team(root, "Research", bursting_priority=3)
    nlp, vision = make_team(research, "NLP", bursting_priority=2), make_team(research, "Vision")
    production = make_team(root, "Production")
    pool = make_pool("Main")
    for team, gpus in ((research, 48), (nlp, 20), (vision, 10), (production, 32)):
        set_share(team, pool, gpus=gpus)
    lead = member(research, Role.LEAD, "lea")
    bind(lead, nlp, Role.RESEARCHER)
    return Acme(
        root=root,
        research=research,
        nlp=nlp,
        vision=vision,
        production=production,
        pool=pool,
        org_admin=member(root, Role.ORG_ADMIN, "olga"),
        admin=member(research, Role.ADMIN, "adam"),
        lead=lead,
        researcher=member(nlp, Role.RESEARCHER, "rita"),
        viewer=member(research, Role.VIEWER, "vera"),
        outsider=member(production, Role.RESEARCHER, "otto"),
        stranger=make_user("sven"),
    )


SignIn = Callable[[User], Client]
Api = Callable[[User], APIClient]


@pytest.fixture
def sign_in(client: Client) -> SignIn:
    """Return a function that signs somebody in and returns the browser."""

    def sign_in_as(user: User) -> Client:
        client.force_login(user)
        return client

    return sign_in_as


@pytest.fixture
def api() -> Api:
    """Return a function that returns an API client of somebody."""

    def client_of(user: User) -> APIClient:
        client = APIClient()
        client.force_authenticate(user)
        return client

    return client_of
