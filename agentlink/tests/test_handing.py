"""What an agent is handed of credentials: of attempts of its cluster, let go, and nothing that may not be."""

from typing import Any

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentlink import desired, protocol
from agentlink.models import Assignment, BoundNamespace, Cluster
from agentlink.protocol import AssignedCredentials, Desired, DesiredAttempt
from agentlink.tests.agents import Hand, admit, devices_of, report
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster
from chamber.ids import new_id
from teams.models import Binding
from teams.tests.factories import actor, set_rules
from workloads.credentials.actions import create_credential, delete_credential
from workloads.models import Attempt, Credential, CredentialKind, NamedCredential, Status, Workload
from workloads.tests.credentials.conftest import CONTENTS, KEY, MARKER
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _key(settings: Settings) -> None:
    settings.CREDENTIALS_KEYS = [KEY]


def make(place: Place, name: str = "hf", kind: str = "token", **content: Any) -> Credential:
    given = content or CONTENTS[kind]
    return create_credential(by=actor(place.owner), name=name, kind=CredentialKind(kind), content=given)


def admitted(place: Place, *rows: Credential, index: int = 0) -> Attempt:
    workload = make_workload(place.team, place.owner, credentials=[row.reference for row in rows])
    for position, row in enumerate(rows):
        NamedCredential.objects.create(workload=workload, position=position, credential=row)
    devices = [devices_of(place.cluster, "n1")[index]]
    return admit(place.team, place.owner, place.pool, place.cluster, devices, workload=workload)


def told(cluster: Cluster) -> list[DesiredAttempt]:
    return [each for message in desired.full_set(cluster.pk, new_id()) for each in message.assignments]


def handed(place: Place, *rows: Credential) -> AssignedCredentials:
    admitted(place, *rows)
    (only,) = told(place.cluster)
    assert only.credentials is not None
    return only.credentials


def test_each_kind_becomes_what_pods_get(place: Place) -> None:
    rows = [make(place, kind, kind) for kind in ("token", "s3", "registry", "git", "variables", "files")]
    given = handed(place, *rows)
    helper = "store --file /var/run/chamber/credentials/.git-credentials"
    assert given.variables == {
        "HF_TOKEN": MARKER,
        "AWS_ACCESS_KEY_ID": "AK1",
        "AWS_SECRET_ACCESS_KEY": MARKER,
        "AWS_ENDPOINT_URL": "https://s3.example.org",
        "DB_PASSWORD": MARKER,
        "DB_USER": "ada",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "credential.helper",
        "GIT_CONFIG_VALUE_0": helper,
    }
    assert given.files == {
        "files/key.json": MARKER,
        ".git-credentials": f"https://robot:{MARKER}@git.example.org\n",
    }
    (login,) = given.logins
    assert (login.server, login.username, login.password) == ("registry.example.org", "robot", MARKER)
    assert MARKER not in repr(given)
    again = protocol.from_server(protocol.encode(Desired(
        connection=new_id(), generation=1, base=None, part=0, last=True, assignments=tuple(told(place.cluster)),
    )))  # fmt: skip
    assert isinstance(again, Desired)
    assert again.assignments[0].credentials == given


def test_a_token_without_a_variable_has_its_name(place: Place) -> None:
    assert handed(place, make(place, "wandb-key", token=MARKER)).variables == {"WANDB_KEY": MARKER}


def test_nothing_is_handed_before_it_is_let_go_nor_to_another_cluster(place: Place) -> None:
    attempt = admitted(place, make(place))
    Assignment.objects.filter(attempt=attempt).update(let_go=False)
    assert [each.credentials for each in told(place.cluster)] == [None]
    assert told(make_cluster("west")) == []


def test_its_last_use_is_noted(place: Place) -> None:
    before = timezone.now()
    row = make(place)
    handed(place, row)
    row.refresh_from_db()
    assert row.last_used_at is not None
    assert row.last_used_at >= before


def put_back(attempt: Attempt) -> Workload:
    workload = Workload.objects.get(pk=attempt.workload_id)
    assert (workload.status, workload.reason["kind"]) == (Status.PENDING, "refused")
    return workload


def test_what_may_not_be_handed_any_more_goes_back_with_the_reason(place: Place) -> None:
    row = make(place)
    attempt, other = admitted(place, row), admitted(place, index=1)
    Binding.objects.filter(user=place.owner).delete()
    assert [each.attempt for each in told(place.cluster)] == [other.pk]
    assert put_back(attempt).reason["code"] == "credential-unusable"


def test_a_deleted_one_goes_back(place: Place) -> None:
    row = make(place)
    attempt = admitted(place, row)
    delete_credential(by=actor(place.owner), credential=row)
    assert told(place.cluster) == []
    assert put_back(attempt).reason["message"] == "The credential hf, which it names, was deleted."


def test_what_has_begun_goes_on(place: Place) -> None:
    row = make(place)
    attempt = admitted(place, row)
    Assignment.objects.filter(attempt=attempt).update(report_sequence=3)
    delete_credential(by=actor(place.owner), credential=row)
    assert [each.credentials for each in told(place.cluster)] == [None]
    assert Workload.objects.get().status == Status.QUEUED


def test_without_the_key_it_goes_back(place: Place, settings: Settings) -> None:
    attempt = admitted(place, make(place))
    settings.CREDENTIALS_KEYS = ["another-key-that-encrypted-nothing-0123456789"]
    assert told(place.cluster) == []
    assert put_back(attempt).reason["message"] == "The server cannot decrypt the credential hf."


def test_an_agent_that_is_too_old_gets_nothing_of_it(place: Place) -> None:
    attempt, other = admitted(place, make(place)), admitted(place, index=1)
    Cluster.objects.filter(pk=place.cluster.pk).update(agent_version="0.1.0")
    assert [each.attempt for each in told(place.cluster)] == [other.pk]
    assert put_back(attempt).reason["message"] == (
        "It names credentials, and the agent of east is 0.1.0: agents hand them to pods since 0.2.0."
    )


@pytest.mark.parametrize(
    ("patterns", "bound", "allowed"),
    [
        (["wandb"], True, True),
        (["nlp-jobs/w*"], True, True),
        (["east/nlp-jobs/wandb"], True, True),
        (["*/*/wandb"], False, True),
        (["west/*/wandb"], True, False),
        (["other/wandb"], True, False),
        (["nlp-jobs/wandb"], False, False),
    ],
)
def test_a_secret_of_the_cluster_is_handed_where_the_rules_allow_it(
    place: Place, patterns: list[str], bound: bool, allowed: bool
) -> None:
    root = place.team.parent
    assert root is not None
    set_rules(root, cluster_secrets=patterns)
    if bound:
        BoundNamespace.objects.create(
            cluster=place.cluster,
            team=place.team,
            namespace="nlp-jobs",
            owner=place.owner,
            since=timezone.now(),
        )
    attempt = admitted(place, make(place, "wandb", "secret"))
    found = told(place.cluster)
    if not allowed:
        assert found == []
        assert put_back(attempt).reason["code"] == "secret-not-allowed"
        return
    assert found[0].credentials is not None
    (secret,) = found[0].credentials.secrets
    assert (secret.secret, secret.use, secret.variables) == ("wandb", "variables", {"WANDB_API_KEY": "key"})


def test_a_message_that_is_wrong_there_is_answered_without_what_stands_there(place: Place) -> None:
    admitted(place, make(place))
    text = protocol.encode(desired.full_set(place.cluster.pk, new_id())[0])
    wrong = protocol.from_server(text.replace('"variables":{', '"variables":{"A":["' + MARKER + '"],'))
    assert isinstance(wrong, protocol.InvalidMessage)
    assert "credentials" in wrong.message
    assert MARKER not in wrong.message


def test_the_agent_is_told_by_its_session(place: Place) -> None:
    attempt = admitted(place, make(place))
    hand = Hand(place.cluster)
    (message,) = (each for each in hand.greeting.messages if isinstance(each, Desired))
    assert message.assignments[0].credentials is not None
    answer = hand.say(protocol.Observed(reports=(report(attempt, protocol.ReportedPhase.STARTING, 1),)))
    assert MARKER not in str([protocol.encode(each) for each in answer.messages])
