"""Objects that Chamber does not run: which are told, and in which words."""

from typing import Any

import pytest

from agentlink.agent.backends.native.adoption import describe, read_entry
from agentlink.agent.backends.native.marks import JobOrigin
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.unmanaged import QUEUE, for_kueue, read
from agentlink.agent.kube.resources import DEPLOYMENTS, JOB_SETS, MPI_JOBS, RAY_JOBS, Resource
from agentlink.tests.agent.test_native_adoption import RESOURCES, job

NAMES = DomainNames()
OWNER = [{"controller": True, "kind": "JobSet", "name": "x", "uid": "u"}]
Json = dict[str, Any]


def body(**fields: Any) -> Json:
    metadata = {"name": "train", "namespace": "nlp-jobs", "uid": "u1", **fields.pop("metadata", {})}
    return {"metadata": metadata, **fields}


@pytest.mark.parametrize(
    ("resource", "words"),
    [(JOB_SETS, "a JobSet"), (DEPLOYMENTS, "a Deployment"), (MPI_JOBS, "an MPIJob")],
)
def test_each_kind_has_a_sentence_with_what_to_do(resource: Resource, words: str) -> None:
    found = read(body(), resource, NAMES)
    assert found is not None
    assert found.why.startswith(f"Chamber does not run {words} yet")
    assert 'chamber.internal/adopt: "true"' in found.why
    assert (found.told.kind, found.told.name) == (resource.kind, "train")


@pytest.mark.parametrize(
    "over",
    [
        {"metadata": {"ownerReferences": OWNER}},
        {"metadata": {"deletionTimestamp": "2026-11-23T00:00:00Z"}},
        {"status": {"conditions": [{"type": "Completed", "status": "True"}]}},
        {"status": {"conditions": [{"type": "Failed", "status": "True"}]}},
        {"status": {"phase": "Succeeded"}},
    ],
)
def test_what_is_over_or_belongs_to_something_else_is_not_told(over: Json) -> None:
    assert read(body(**over), JOB_SETS, NAMES) is None


def test_what_goes_on_is_told() -> None:
    status = {"conditions": [{"type": "Failed", "status": "False"}, {"type": "Running", "status": "True"}]}
    assert read(body(status=status), JOB_SETS, NAMES) is not None
    assert read(body(status={"jobStatus": "RUNNING"}), RAY_JOBS, NAMES) is not None
    assert read(body(status={"jobStatus": "SUCCEEDED"}), RAY_JOBS, NAMES) is None


def test_a_job_for_kueue_is_not_adopted_and_is_told_where_nothing_else_made_it() -> None:
    asks = job()
    asks["metadata"]["labels"][QUEUE] = "user-queue"
    (problem,) = describe(asks, NAMES, resources=RESOURCES).problems
    of_queue = "It is for Kueue's queue user-queue, and Chamber plans the GPUs of this namespace: "
    assert problem == f"{of_queue}remove the label {QUEUE}."  # it is suspended, and asks to be adopted
    label = f'give it the label {NAMES.adopt}: "true".'
    assert (
        for_kueue("user-queue", NAMES, suspended=True) == f"{of_queue}remove the label {QUEUE}, and {label}"
    )
    assert (
        for_kueue("user-queue", NAMES, suspended=False)
        == f"{of_queue}suspend it, remove the label {QUEUE}, and {label}"
    )
    quiet = job()
    quiet["metadata"]["labels"] = {QUEUE: "user-queue"}
    assert read_entry(quiet, None, NAMES, resources=RESOURCES).queue == "user-queue"
    assert read_entry(quiet, JobOrigin.OWN, NAMES, resources=RESOURCES).queue == ""
    quiet["metadata"]["ownerReferences"] = OWNER
    assert read_entry(quiet, None, NAMES, resources=RESOURCES).queue == ""
