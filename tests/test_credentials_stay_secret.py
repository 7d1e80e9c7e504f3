"""A value of a credential is in one message to the agent and in the Secret that this makes of it, and nowhere else: all
that is stored, sent, shown, exported and logged is searched for it.
"""

import base64
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.apps import apps
from django.test import Client
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from agentlink import protocol
from agentlink.agent.backends.native import credentials as native
from agentlink.agent.backends.native import manifests
from agentlink.agent.backends.native.devices import ContainerRequest
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.models import Cluster
from agentlink.protocol import Desired, DesiredAttempt, ReportedPhase
from agentlink.tests.agents import Hand, nodes, report
from agentlink.tests.factories import make_cluster, make_node
from chamber.ids import new_id
from chamber.models import User
from scheduling.cycle.cycle import run_cycle
from scheduling.models import Cycle
from scheduling.tests.conftest import _scheduler_without_memory
from teams.models import AuditEvent, Role, Team
from teams.tests.factories import make_org, make_pool, make_team, member
from workloads.credentials import actions
from workloads.models import Attempt, Workload
from workloads.tests.credentials.conftest import CONTENTS, KEY, MARKER

__all__ = ["_scheduler_without_memory"]
pytestmark = pytest.mark.django_db
KINDS = ("token", "s3", "registry", "git", "variables", "files")
FORMS = (
    MARKER,
    quote(MARKER, safe=""),
    base64.b64encode(MARKER.encode()).decode().rstrip("=")[:-2],
    MARKER.encode().hex(),
)
"""As what it could be found: as it is, in an address, in a Secret, as digits."""


def has_marker(text: str) -> bool:
    return any(form in text for form in FORMS)


def stored() -> Iterator[tuple[str, str]]:
    """Yield every row of every table, what is compressed in it written out."""
    for model in apps.get_models():
        for row in model._default_manager.values():
            yield model._meta.label, " ".join(map(_text, row.values()))


def _text(value: object) -> str:
    if isinstance(value, memoryview | bytes):
        content = bytes(value)
        try:
            return zlib.decompress(content).decode(errors="replace")
        except zlib.error:
            return content.decode(errors="replace")
    return json.dumps(value, default=str, ensure_ascii=False)


@pytest.fixture
def team(settings: Settings, tmp_path: Path) -> Team:
    settings.CREDENTIALS_KEYS = [KEY]
    settings.CHAMBER_RING = "builtins.list"
    org = make_org("Acme")
    pool = make_pool("Main")
    cluster = make_cluster("east")
    for name in ("n1", "n2"):
        make_node(cluster, name, gpus=4, pool=pool)
    return make_team(org, "NLP")


@pytest.fixture
def lead(team: Team) -> User:
    return member(team, Role.LEAD, "lena")


class Doors:
    """What a lead asks for, and all that is answered."""

    def __init__(self, user: User) -> None:
        self.browser = Client(raise_request_exception=False)
        self.browser.force_login(user)
        self.api = APIClient(raise_request_exception=False)
        self.api.force_authenticate(user)
        self.answers: dict[str, str] = {}

    def page(self, address: str, data: dict[str, Any] | None = None) -> None:
        answer = self.browser.get(address) if data is None else self.browser.post(address, data)
        self._keep(f"page {address} {len(self.answers)}", answer)

    def ask(self, method: str, address: str, body: Any = None) -> int:
        answer = getattr(self.api, method)(f"/api/v1/{address}", body, format="json")
        self._keep(f"{method} {address} {len(self.answers)}", answer)
        return int(answer.status_code)

    def _keep(self, name: str, answer: Any) -> None:
        content = b"".join(answer) if getattr(answer, "streaming", False) else answer.content
        self.answers[name] = f"{content.decode(errors='replace')} {dict(answer.headers)} {answer.cookies}"


def make_all(doors: Doors) -> list[str]:
    """Make one of each kind, some by the page and some of the team, and give each other values once."""
    names = []
    for kind in KINDS:
        body = {"name": kind, "type": kind, "values": CONTENTS[kind], "team": "nlp" if kind == "s3" else None}
        assert doors.ask("post", "credentials/", body) == 201
        own = f"credentials/{kind}/"
        assert (
            doors.ask("put", f"teams/nlp/{own}" if kind == "s3" else own, {"values": CONTENTS[kind]}) == 200
        )
        names.append("nlp/s3" if kind == "s3" else kind)
    return names


def try_what_is_refused(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send values where they are refused, and where the server fails on them."""
    doors.ask("post", "credentials/", {"name": "Bad", "type": "token", "values": {"token": MARKER}})
    doors.ask("post", "credentials/", {"name": "a", "type": "token", "values": {"token": [MARKER]}})
    doors.ask("post", "credentials/", {"name": "a", "type": "files", "values": {"files": {"a/b": MARKER}}})
    doors.ask("post", "credentials/", {"name": "a", "type": "token", "values": MARKER})
    doors.page("/settings/credentials/", {"name": "Bad", "type": "token", "token": MARKER})
    doors.page("/settings/credentials/", {"name": "a", "type": "variables", "variables": MARKER})
    environment = {"HF_TOKEN": MARKER}
    body = {"name": "w", "team": "nlp", "image": "i", "environment": environment}
    assert doors.ask("post", "workloads/", body) == 422

    def fails(**_: Any) -> None:
        raise RuntimeError("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(actions, "create_credential", fails)
        body = {"name": "a", "type": "token", "values": {"token": MARKER}}
        assert doors.ask("post", "credentials/", body) == 500
        doors.page("/settings/credentials/", {"name": "a", "type": "token", "token": MARKER})


def look_around(doors: Doors, slug: str) -> None:
    """Ask for everything that shows a workload, its credentials, or what was done."""
    for address in (
        *("credentials/", "credentials/token/", f"workloads/{slug}/", f"workloads/{slug}/events/"),
        *(
            f"workloads/{slug}/attempts/",
            "workloads/",
            f"workloads/{slug}/explain/",
            "teams/nlp/credentials/s3/",
        ),
    ):
        assert doors.ask("get", address) == 200, address
    for address in (
        *(
            "/",
            "/settings/credentials/",
            "/settings/credentials/own/token/",
            "/settings/credentials/of/nlp/s3/",
        ),
        *(
            f"/workloads/{slug}/",
            f"/workloads/submit/?clone={slug}",
            "/workloads/",
            "/teams/nlp/",
            "/settings/",
        ),
    ):
        doors.page(address)
    doors.page("/settings/export/", {})


async def play(assignment: DesiredAttempt, file: Path) -> None:
    """Run it on a simulated cluster that keeps a file."""
    cluster = SimulatedCluster(nodes(2), state_file=file)
    await cluster.create(assignment, assignment.pods)
    await cluster.observe(-1)
    cluster.save()


def native_objects(assignment: DesiredAttempt) -> tuple[str, str]:
    """Return the Jobs, and the Secrets, that a native cluster makes of it, as JSON."""
    wave = manifests.Wave(assignment, assignment.pods, "ns")
    asks = {pod.index: ContainerRequest(limits=(("nvidia.com/gpu", "1"),)) for pod in assignment.pods}
    (part,) = manifests.parts(wave, asks)
    job = manifests.job(part, wave, DomainNames(), cluster="east")
    owner = manifests.owned_by(part.name, "u")
    return json.dumps(job), json.dumps(list(native.secrets(part.name, assignment, owner, {})))


def split(messages: list[Any]) -> tuple[list[DesiredAttempt], list[str]]:
    """Return the attempts that are told, and all other messages as they travel."""
    told = [each for message in messages if isinstance(message, Desired) for each in message.assignments]
    return told, [protocol.encode(each) for each in messages if not isinstance(each, Desired)]


def test_it_is_in_one_message_and_the_secret_and_nowhere_else(
    team: Team, lead: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    doors = Doors(lead)
    names = make_all(doors)
    try_what_is_refused(doors, monkeypatch)
    body = {"name": "w", "team": "nlp", "image": "i", "command": "true", "credentials": names}
    assert doors.ask("post", "workloads/", body) == 201
    slug = Workload.objects.get().slug
    hand = Hand(Cluster.objects.get())
    run_cycle()
    told, others = split(hand.session.news().messages)
    (assignment,) = told
    assert has_marker(assignment.model_dump_json())
    assert not has_marker(repr(assignment))
    attempt = Attempt.objects.get()
    for sequence, phase in enumerate(
        (ReportedPhase.STARTING, ReportedPhase.RUNNING, ReportedPhase.SUCCEEDED), 1
    ):
        answer = hand.say(protocol.Observed(reports=(report(attempt, phase, sequence),)))
        again, more = split(answer.messages)
        assert not again
        others += more
    look_around(doors, slug)
    assert Cycle.objects.exclude(snapshot=b"").exists()
    assert AuditEvent.objects.filter(action="credential.replaced").count() == len(KINDS)

    job, secrets = native_objects(assignment)
    assert has_marker(secrets)
    found = {
        "the Job": job,
        "other messages": " ".join(others),
        "logs": "\n".join([caplog.text, *(str(record.__dict__) for record in caplog.records)]),
        **doors.answers,
    }
    assert [name for name, text in found.items() if has_marker(text)] == []
    assert [label for label, text in stored() if has_marker(text)] == []


async def test_a_simulated_cluster_keeps_it_in_no_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    share = protocol.AssignedShare(index=0, share_milli=1000)
    pod = protocol.AssignedPod(index=0, node="n1", devices=(share,))
    given = protocol.AssignedCredentials(directory="/run", variables={"A": MARKER})
    attempt = new_id()
    assignment = DesiredAttempt(
        workload=attempt, slug="w", attempt=attempt, number=1, pods=(pod,), let_go=True, image="i", grace_seconds=1,
        credentials=given,
    )  # fmt: skip
    await play(assignment, tmp_path / "state")
    assert not has_marker((tmp_path / "state").read_text())
    assert not has_marker(caplog.text)


def test_the_search_finds_what_is_stored_in_the_clear(team: Team) -> None:
    Team.objects.filter(pk=team.pk).update(name=MARKER)
    assert [label for label, text in stored() if has_marker(text)] == ["teams.Team"]
