"""Making Jobs, whatever the cluster's admission makes of them; and what the API server's refusals mean."""

import copy
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest

from agentlink.agent.backends.native import manifests
from agentlink.agent.backends.native.devices import ContainerRequest
from agentlink.agent.backends.native.inventory import NodeInventory
from agentlink.agent.backends.native.making import Maker, NotMade, _refused
from agentlink.agent.backends.native.manifests import Wave
from agentlink.agent.backends.native.marks import JobOrigin, Marks
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.phases import ObservedAttempt
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import (
    AlreadyExists,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ObjectConflict,
    Throttled,
    Unreachable,
)
from agentlink.agent.kube.resources import JsonObject
from agentlink.tests.kube.made import assigned
from agentlink.tests.kube.native import work
from agentlink.tests.kube.wires import Answer, Scripted, refusal, scripted

NAMES, MARKS, ASK = DomainNames(), Marks(b"k" * 32), ContainerRequest(limits=(("nvidia.com/gpu", "1"),))
ASSIGNMENT = work(*assigned(0, 1))
WAVE = Wave(ASSIGNMENT, ASSIGNMENT.pods, "ns")

QUOTA = 'jobs.batch "x" is forbidden: exceeded quota: small, requested: count/jobs.batch=1'


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (NotFound(404, "NotFound", 'namespaces "ns" not found'), "namespace-missing",
         "The namespace ns does not exist in the cluster."),
        (Forbidden(403, "Forbidden", "because it is being terminated", ("NamespaceTerminating",)),
         "namespace-terminating", "The namespace ns is being deleted in the cluster."),
        (Forbidden(403, "Forbidden", QUOTA), "quota-exceeded", f"A quota of namespace ns refuses it: {QUOTA}."),
        (Forbidden(403, "Forbidden", 'admission webhook "w" denied the request: no latest tags.'), "admission-denied",
         'The cluster refuses it: admission webhook "w" denied the request: no latest tags.'),
        (Invalid(422, "Invalid", "spec.x: Required value"), "refused",
         "The cluster refuses it: spec.x: Required value."),
        (KubeError(400, "BadRequest", "strict decoding error"), "refused",
         "The cluster refuses it: strict decoding error."),
    ],
)  # fmt: skip
def test_a_refusal_is_told_in_the_clusters_words(error: KubeError, code: str, sentence: str) -> None:
    refused = _refused(error, "ns")
    assert refused is not None
    assert (refused.code, refused.message) == (code, sentence)


@pytest.mark.parametrize(
    "error", [ObjectConflict(409), Throttled(429), Unreachable(0), KubeError(500), KubeError(401)]
)
def test_what_may_pass_is_no_refusal(error: KubeError) -> None:
    assert _refused(error, "ns") is None


# A Job that the cluster's admission changed


def admitted(**fields: Any) -> JsonObject:
    """Return the wave's Job with the mark of what was asked for, and with a sidecar that nobody asked for."""
    (part,) = manifests.parts(WAVE, {0: ASK, 1: ASK})
    body = manifests.job(part, WAVE, NAMES, cluster="c")
    body["metadata"]["annotations"][NAMES.mark] = MARKS.made(body)
    body = copy.deepcopy(body)
    body["spec"]["template"]["spec"] |= {"initContainers": [{"name": "sidecar", "image": "x"}], **fields}
    body["metadata"] |= {"uid": "j-1", "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return body


def annotated(annotations: dict[str, str]) -> JsonObject:
    """Return that Job with these annotations."""
    body = admitted()
    body["metadata"]["annotations"] = annotations
    return body


def pods(*gates: str) -> Answer:
    """Return the list of the Job's pods, one behind each of these gates; empty: behind none."""
    owner = {"uid": "j-1", "controller": True}
    items = [
        {
            "metadata": {"namespace": "ns", "name": f"p{number}", "uid": f"p{number}", "ownerReferences": [owner]},
            "spec": {"schedulingGates": [{"name": gate}] if gate else []},
        }
        for number, gate in enumerate(gates)
    ]  # fmt: skip
    return Answer({"metadata": {"resourceVersion": "9"}, "items": items})


@pytest.mark.parametrize(
    ("began_at", "words"),
    [("00:05:00", "quota b"), ("00:07:00", "quota b"), ("00:07:01", None), (None, None)],
)
async def test_what_was_said_of_an_earlier_attempt_is_no_reason_of_this_one(
    began_at: str | None, words: str | None
) -> None:
    """An adopted Job stays the same one: it is suspended between its attempts, and its events stay for an hour."""
    events = [
        {"message": f"quota {name}", "lastTimestamp": f"2026-01-01T00:0{minute}:00Z"}
        for name, minute in (("a", 6), ("b", 7), ("old", 1))
    ]
    began = datetime.fromisoformat(f"2026-01-01T{began_at}.4+00:00") if began_at else None
    job = SimpleNamespace(uid="j-1", namespace="ns", started_at=began)
    async with (
        scripted(Answer({"metadata": {"resourceVersion": "9"}, "items": events})) as server,
        Kube(server.access) as kube,
    ):
        assert await maker(kube).why_unmade(cast(ObservedAttempt, SimpleNamespace(jobs=(job,)))) == words


async def make(server: Scripted) -> list[Any]:
    """Have the wave's Job made; return what was patched."""
    async with Kube(server.access) as kube:
        with patch.object(kube, "patch", wraps=kube.patch) as patched:
            await maker(kube).jobs(WAVE)
        return [call.args[2] for call in patched.await_args_list]


def maker(kube: Kube) -> Maker:
    return Maker(kube, NAMES, MARKS, cast(NodeInventory, SimpleNamespace(ask=lambda *_: ASK)), "c")


async def test_a_job_that_admission_changed_is_marked_as_what_became_of_it() -> None:
    made = admitted()
    assert MARKS.kind(made) is None
    async with scripted(Answer(made), Answer({})) as server:
        (change,) = await make(server)
    assert change["metadata"]["uid"] == "j-1"
    made["metadata"]["annotations"] |= change["metadata"]["annotations"]
    assert MARKS.kind(made) is JobOrigin.OWN


async def test_a_job_that_goes_before_it_is_marked_is_made_anew() -> None:
    async with scripted(Answer(admitted()), refusal(404, "NotFound")) as server:
        with pytest.raises(ObjectConflict, match="went before it was marked"):
            await make(server)


TAKEN = refusal(409, "AlreadyExists")


async def test_a_job_that_was_left_between_its_making_and_its_marking_goes_and_is_made_anew() -> None:
    gate = NAMES.gate
    answers = [TAKEN, Answer(admitted()), pods(gate, gate), Answer({}), Answer(admitted()), Answer({})]
    async with scripted(*answers) as server:
        with pytest.raises(AlreadyExists):
            await make(server)
    asked = [method for method, _ in server.requests]
    assert asked == ["POST", "GET", "GET", "DELETE", "GET", "PATCH"]


async def test_only_a_job_with_the_mark_of_what_it_is_was_made() -> None:
    marked = admitted()
    marked["metadata"]["annotations"][NAMES.mark] = MARKS.made(marked)
    answers = [Answer(marked), Answer(admitted()), refusal(404, "NotFound")]
    async with scripted(*answers) as server, Kube(server.access) as kube:
        found = [await maker(kube).was_made(ASSIGNMENT, "ns") for _ in range(3)]
    assert found == [True, False, False]


@pytest.mark.parametrize(
    ("there", "gates"),
    [
        (admitted(), [NAMES.gate, ""]),
        (admitted(schedulingGates=[]), []),
        (annotated({}), []),
        (annotated({NAMES.mark: "0" * 64}), []),
    ],
    ids=["a pod was let go", "its pods wait for nobody", "without a mark", "of a mark that is not its own"],
)
async def test_what_may_be_somebody_elses_is_left_to_him(there: JsonObject, gates: list[str]) -> None:
    async with scripted(TAKEN, Answer(there), pods(*gates)) as server:
        with pytest.raises(NotMade, match="not Chamber's") as refused:
            await make(server)
    assert refused.value.code == "name-taken"
    assert {method for method, _ in server.requests} == {"POST", "GET"}
