"""What the doctor of a cluster says of an API server: its version, its clock, whether it answers at all."""

import json
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, cast

import pytest

from agentlink.agent.check import CheckOptions, cluster, examine
from agentlink.agent.kube.access import Access
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import KubeError, NotFound, Unauthorised

ASKED = CheckOptions()


class Played:
    """An API server that tells a version and a time, and knows nothing else."""

    def __init__(self, git_version: str = "v1.36.3", *, ahead: timedelta = timedelta(0)) -> None:
        self.git_version, self.ahead = git_version, ahead
        self.server_date = ""
        self.access = type("", (), {"server": "https://kube.example", "namespace": "chamber"})()
        self.error: KubeError | None = None

    async def raw(self, _: str, path: str) -> bytes:
        if self.error is not None:
            raise self.error
        if path != "/version":
            raise NotFound(404)
        self.server_date = format_datetime(datetime.now(UTC) + self.ahead, usegmt=True)
        return json.dumps({"gitVersion": self.git_version}).encode()


def played(*arguments: Any, **fields: Any) -> Kube:
    return cast(Kube, Played(*arguments, **fields))


@pytest.mark.parametrize("git_version", ["v1.30.0", "v1.31.2-eks-7f9249a", "v1.36.3+k3s1", "v2.0.0"])
async def test_a_version_that_will_do_is_no_problem(git_version: str) -> None:
    assert await cluster.version(played(git_version), ASKED) == []


async def test_a_version_that_is_too_old_is_named_with_the_one_that_is_needed() -> None:
    [found] = await cluster.version(played("v1.29.14-gke.100"), ASKED)
    assert "v1.29.14-gke.100; Chamber needs 1.30" in found.problem
    [found] = await cluster.version(played("v1.33.1"), CheckOptions(uses_claims=True))
    assert "since 1.34" in found.problem
    assert await cluster.version(played("v1.33.1"), ASKED) == []


async def test_what_is_no_version_is_said_so() -> None:
    [found] = await cluster.version(played("edge"), ASKED)
    assert "'edge'" in found.problem


@pytest.mark.parametrize("seconds", [0, 4, -4])
async def test_clocks_that_show_about_the_same_are_no_problem(seconds: int) -> None:
    assert await cluster.clock(played(ahead=timedelta(seconds=seconds)), ASKED) == []


@pytest.mark.parametrize(
    ("seconds", "words"), [(90, "s behind the API server's"), (-90, "s ahead of the API server's")]
)
async def test_clocks_that_are_apart_are_a_problem(seconds: int, words: str) -> None:
    [found] = await cluster.clock(played(ahead=timedelta(seconds=seconds)), ASKED)
    assert words in found.problem
    assert any(f"clock is {number} s" in found.problem for number in (89, 90))


async def test_claims_need_an_api_that_is_served() -> None:
    assert await cluster.claims(played(), ASKED) == []
    [found] = await cluster.claims(played(), CheckOptions(uses_claims=True))
    assert "does not serve resource.k8s.io/v1" in found.problem


async def test_an_api_server_that_does_not_know_who_asks_is_looked_into_no_further() -> None:
    kube = Played()
    kube.error = Unauthorised(401)
    report = await examine(cast(Kube, kube), ASKED)
    assert [name for name, _ in report.problems] == ["api-server"]
    assert "does not know who asks" in report.problems[0][1].problem
    assert report.left_out == [
        "version", "clock", "namespaces", "rights", "security", "jobs", "pods", "claims", "nodes", "lease",
    ]  # fmt: skip


class Nowhere:
    """What a kubeconfig says whose server is not there."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.ssl_ca_cert: str | None = None
        self.cert_file: str | None = None
        self.key_file: str | None = None
        self.tls_server_name: str | None = None
        self.verify_ssl = True
        self.api_key: dict[str, str] = {}
        self.refresh_api_key_hook: Any = None


async def test_an_api_server_that_is_not_there_is_told_with_its_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        async with Kube(Access(lambda: Nowhere(address)), patience_seconds=0.1) as kube:
            report = await examine(kube, ASKED)
    [(name, found)] = report.problems
    assert name == "api-server"
    assert found.problem.startswith(f"{address} gave no answer")
    assert "certificate authority" in found.advice
