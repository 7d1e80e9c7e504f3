"""A key for credentials, and somebody who leads the team."""

from typing import Any

import pytest
from pytest_django.fixtures import Settings

from chamber.models import User
from teams.models import Role, Team
from teams.tests.factories import actor, member
from workloads.environments.actions import create_environment
from workloads.models import Environment

IMAGE = "registry.example.org/nlp/pytorch@sha256:" + "0f" * 32
VALUES: dict[str, Any] = {
    "image": IMAGE,
    "command": ["python", "train.py"],
    "variables": {"NCCL_DEBUG": "INFO", "EPOCHS": "3"},
    "working_dir": "/workspace",
    "shm_mib": 16384,
    "scratch_mib": 204_800,
    "gpu_types": ["A100"],
    "node_selector": {"zone": "a"},
}


@pytest.fixture(autouse=True)
def _key(settings: Settings) -> None:
    settings.CREDENTIALS_KEYS = ["a-key-for-credentials-of-tests-0123456789"]


@pytest.fixture
def lead(team: Team) -> User:
    return member(team, Role.LEAD, "lea")


@pytest.fixture
def admin(org: Team) -> User:
    return member(org, Role.ORG_ADMIN, "olga")


def make(by: User, team: Team, name: str = "pytorch", **values: Any) -> Environment:
    """Return an environment of the team with one version."""
    return create_environment(by=actor(by), team=team, name=name, values={"image": IMAGE, **values})
