"""ResourceClaims: what they say, and what is read of them."""

import pytest

from agentlink.agent.backends.native import claims
from agentlink.agent.backends.native.claims import ClaimFacts, body, device_class, name_of, read_claim
from agentlink.agent.backends.native.devices import CannotHold, DeviceClaim
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.slices import DeviceAttribute, SliceDevice
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.resources import JsonObject
from agentlink.tests.kube.wires import Answer, refusal, scripted

DRIVER = "gpu.nvidia.com"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u-1"}
LABELS = {"chamber.internal/team": "nlp"}


def device(name: str, kind: str = "gpu", driver: str = DRIVER) -> SliceDevice:
    return SliceDevice(
        driver, "n", name, kind, "A100", 40960, DeviceAttribute(driver, "uuid", f'"GPU-{name}"')
    )


def body_of(claim: DeviceClaim, **classes: str) -> JsonObject:
    return body(claim, "c", LABELS, OWNER, names=DomainNames(), classes=classes)


def test_a_claim_names_its_devices_and_remembers_their_indexes() -> None:
    made = body_of(DeviceClaim(((3, device("b")), (1, device("a"))), shared=False))
    attributes = f'device.attributes["{DRIVER}"]'
    expression = (
        f'device.driver == "{DRIVER}" && "uuid" in {attributes} && {attributes}["uuid"] in ["GPU-a", "GPU-b"]'
    )
    assert made["spec"]["devices"]["requests"] == [
        {
            "name": "gpus-0",
            "exactly": {
                "deviceClassName": DRIVER,
                "allocationMode": "ExactCount",
                "count": 2,
                "selectors": [{"cel": {"expression": expression}}],
            },
        }
    ]
    assert made["metadata"]["ownerReferences"] == [OWNER]
    assert made["metadata"]["labels"] == LABELS
    assert "adminAccess" not in str(made)
    facts = read_claim({**made, "metadata": {**made["metadata"], "namespace": "ns"}}, DomainNames())
    assert facts == ClaimFacts("ns", "c", ("u-1",), (), ((f"{DRIVER}/n/a", 1), (f"{DRIVER}/n/b", 3)), False)


def test_devices_of_different_kinds_are_requested_from_different_classes() -> None:
    made = body_of(DeviceClaim(((0, device("a")), (1, device("m", "mig"))), shared=False))
    found = [
        (each["exactly"]["deviceClassName"], each["exactly"]["count"])
        for each in made["spec"]["devices"]["requests"]
    ]
    assert found == [("gpu.nvidia.com", 1), ("mig.nvidia.com", 1)]


@pytest.mark.parametrize(
    ("classes", "expected"),
    [({}, "mig.nvidia.com"), ({DRIVER: "ours"}, "ours"), ({DRIVER: "ours", f"{DRIVER}/mig": "small"}, "small")],
)  # fmt: skip
def test_a_device_class_may_be_named(classes: dict[str, str], expected: str) -> None:
    assert device_class(device("m", "mig"), classes) == expected


def test_a_shared_claim_is_named_by_its_device_and_others_by_their_job() -> None:
    one, same = DeviceClaim(((0, device("a")),), shared=True), DeviceClaim(((5, device("a")),), shared=True)
    assert (
        name_of(one, "x") == name_of(same, "y") != name_of(DeviceClaim(((0, device("b")),), shared=True), "x")
    )
    assert read_claim({"metadata": {"namespace": "ns", "name": name_of(one, "x")}}, DomainNames()).shared
    assert name_of(DeviceClaim(((0, device("a")),), shared=False), "x") == "x"


def test_devices_that_are_only_watched_are_taken_from_nobody() -> None:
    results = [
        {"driver": DRIVER, "pool": "n", "device": "a"},
        {"driver": DRIVER, "pool": "n", "device": "b", "adminAccess": True},
    ]
    told = {
        "metadata": {"namespace": "ns", "name": "c"},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    assert read_claim(told, DomainNames()).devices == (f"{DRIVER}/n/a",)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "null", "{", '{"a": -1}', '{"a": true}', '{"a": "0"}', '{"a": 99999}'),
        pytest.param("[" * 200_000, id="deep"),
    ],
)
def test_indexes_that_somebody_wrote_wrong_are_not_remembered(text: str) -> None:
    metadata = {"namespace": "ns", "name": "c", "annotations": {"chamber.internal/devices": text}}
    assert read_claim({"metadata": metadata}, DomainNames()).pins == ()


# Providing a shared claim that is there already


TAKEN = refusal(409, "AlreadyExists")


def found(*owners: str, going: bool = False) -> Answer:
    metadata: JsonObject = {"name": "c", "resourceVersion": "5", "uid": "c-1"}
    metadata["ownerReferences"] = [{**OWNER, "uid": uid} for uid in owners]
    return Answer(
        {"metadata": {**metadata, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {})}}
    )


async def provide(*answers: Answer) -> list[str]:
    """Return what was asked of an API server that answers so."""
    whole = body_of(DeviceClaim(((0, device("a")),), shared=True))
    async with scripted(*answers) as server, Kube(server.access) as kube:
        await claims.provide(kube, whole, "ns")
        return [f"{method} {path.rpartition('/')[2]}" for method, path in server.requests]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "AGAIN_SECONDS", 0.0)


async def test_an_owner_joins_those_that_are_there_once() -> None:
    asked = ["POST resourceclaims", "GET c"]
    assert await provide(TAKEN, found("u-0"), found("u-0", "u-1")) == [*asked, "PATCH c"]
    assert await provide(TAKEN, found("u-0", "u-1")) == asked


async def test_a_claim_that_is_going_is_waited_for() -> None:
    asked = await provide(TAKEN, found("u-0", going=True), TAKEN, refusal(404, "NotFound"), Answer({}))
    assert asked == ["POST resourceclaims", "GET c", "POST resourceclaims", "GET c", "POST resourceclaims"]


async def test_owners_that_change_meanwhile_are_read_again() -> None:
    conflict = refusal(409, "Conflict")
    asked = await provide(TAKEN, found("u-0"), conflict, TAKEN, found("u-0", "u-2"), found())
    assert asked[-1] == "PATCH c"


async def test_a_claim_that_never_goes_is_given_up_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "TRIES", 2)
    going = found("u-0", going=True)
    with pytest.raises(CannotHold, match="The claim ns/c on its GPU is being deleted, and is still there"):
        await provide(TAKEN, going, TAKEN, going)
