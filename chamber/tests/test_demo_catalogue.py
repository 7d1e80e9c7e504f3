"""The demo has an environment and a data source, made once, and its stream submits with them."""

import random
from dataclasses import replace

import pytest

from agentlink.tests.factories import make_cluster
from chamber.demo import stream
from chamber.demo.catalogue import make_catalogue
from chamber.models import User
from teams.actors import Actor
from teams.models import Role
from teams.tests.factories import actor, make_org, make_pool, make_team, member
from workloads.models import DataSource, Environment, Workload
from workloads.submission import submit

BY = Actor.system("test")


@pytest.fixture
def vito(db: None) -> User:
    vision = make_team(make_team(make_org("Acme"), "Research"), "Vision")
    make_cluster("east")
    make_pool("Main")
    return member(vision, Role.LEAD, "vito")


def test_it_is_made_once(vito: User) -> None:
    for _ in range(2):
        make_catalogue(by=BY)
    assert str(Environment.objects.select_related("team").get()) == "research/pytorch"
    [place] = DataSource.objects.get().locations.all()
    assert place.cluster.name == "east"


def test_without_the_team_nothing_is_made(db: None) -> None:
    make_org("Other")
    make_catalogue(by=BY)
    assert not Environment.objects.exists()


def test_the_stream_submits_with_them(vito: User) -> None:
    make_catalogue(by=BY)
    [recipe] = [each for each in stream.RECIPES if each.mounts]
    recipe = replace(recipe, pods=(1,), gpus=(1,))
    submit(by=actor(vito), requests=[stream._request(recipe, random.Random(1))])
    workload = Workload.objects.get()
    assert (workload.runs_in, workload.working_dir) == ("research/pytorch@1", "/workspace")
    assert [each["source"] for each in workload.mounts or []] == ["research/imagenet"]
