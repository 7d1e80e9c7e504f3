"""Labels and annotations of a submission: what is taken, and what is refused with a sentence."""

from typing import Any

import pytest

from chamber.errors import Refusal
from chamber.models import User
from teams.models import Pool
from teams.tests.factories import actor
from workloads import manifests
from workloads.requests import SubmissionRequest
from workloads.shapes import WorkloadShape
from workloads.submission import submit


def parsed(**fields: Any) -> SubmissionRequest:
    return SubmissionRequest.parse({"name": "bert", "team": "nlp", "image": "train:1", **fields})


def refused(**fields: Any) -> dict[str, str]:
    with pytest.raises(Refusal) as caught:
        parsed(**fields)
    return caught.value.fields


def test_they_are_kept_told_and_submitted_again(owner: User, pool: Pool) -> None:
    given = {"labels": {"cost-centre": "42", "example.org/x": ""}, "annotations": {"note": "Ask Ada."}}
    (workload,) = submit(by=actor(owner), requests=[parsed(**given)])
    workload.refresh_from_db()
    shown = WorkloadShape(workload).data
    assert {key: shown[key] for key in given} == given
    content = manifests.content_of(workload, {}, user=owner)
    assert {key: content[key] for key in given} == given
    assert parsed(labels={"epochs": 3}).labels == {"epochs": "3"}


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize(
    "key",
    [
        "chamber.internal/team",
        "x.chamber.internal/a",
        "kubernetes.io/arch",
        "app.kubernetes.io/name",
        "pod-security.kubernetes.io/enforce",
        "k8s.io/a",
        "resource.k8s.io/a",
        "kueue.x-k8s.io/queue-name",
        "karpenter.sh/do-not-disrupt",
        "job-name",
    ],
)
def test_names_that_steer_something_cannot_be_given(field: str, key: str) -> None:
    sentence = refused(**{field: {key: "x"}})[field]
    assert sentence.startswith(f"The {field[:-1]} {key} cannot be given: the names of ")
    assert sentence.endswith(" are not for submissions to set.")


@pytest.mark.parametrize(
    "key", ["", "-a", "a b", "a/b/c", "/a", "UPPER.org/a", "ä", "x" * 64, f"{'x' * 254}/a", "a\nb"]
)
def test_what_is_no_name_is_refused(key: str) -> None:
    assert "cannot name labels" in refused(labels={key: "x"})["labels"]


@pytest.mark.parametrize("value", ["a b", "x" * 64, "-", "ä", "a\nb"])
def test_what_is_no_value_of_a_label_is_refused(value: str) -> None:
    assert refused(labels={"a": value})["labels"].startswith("The label a is ")
    assert parsed(annotations={"a": value}).annotations == {"a": value}


def test_there_are_not_too_many_and_not_too_large_ones() -> None:
    many = {f"k{number}": "x" for number in range(21)}
    assert refused(labels=many)["labels"] == "It has 21 labels; at most 20 are allowed."
    large = refused(annotations={"a": "x" * 16 * 1024})["annotations"]
    assert large == "The annotations have 16,385 bytes together; at most 16,384 are allowed."


def test_shared_memory_is_part_of_memory() -> None:
    assert parsed(memory_mib="4 GiB", shm_mib="4 GiB").shm_mib == 4096
    assert "5,120 MiB are more than its 4,096 MiB" in refused(memory_mib="4 GiB", shm_mib="5 GiB")["shm_mib"]
