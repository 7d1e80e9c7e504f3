"""Which images workloads of a team may run: patterns and digests, by the rules of the team and those above it."""

from typing import Any

import pytest

from chamber.errors import Refusal
from chamber.models import User
from teams.image_names import full_name
from teams.models import Team, TeamRules
from teams.rules import EffectiveRules, merged, wider_than_allowed
from teams.tests.factories import actor, set_rules
from workloads.models import Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit

DIGEST = "sha256:" + "0f" * 32


def submitted(owner: User, image: str, **asked: Any) -> Workload:
    request = SubmissionRequest.parse({"name": "bert", "team": "nlp", "image": image, **asked})
    return submit(by=actor(owner), requests=[request])[0]


def refused(owner: User, image: str) -> str:
    with pytest.raises(Refusal) as caught:
        submitted(owner, image)
    assert list(caught.value.fields) == ["image"]
    assert not Workload.objects.exists()
    return caught.value.fields["image"]


@pytest.mark.parametrize(
    ("image", "whole"),
    [
        ("python", "docker.io/library/python"),
        ("pytorch/pytorch:2.5", "docker.io/pytorch/pytorch:2.5"),
        ("registry.example.org/a/b:1", "registry.example.org/a/b:1"),
        ("localhost/a", "localhost/a"),
        ("host:5000/a", "host:5000/a"),
    ],
)
def test_a_name_without_a_registry_is_of_docker_hub(image: str, whole: str) -> None:
    assert full_name(image) == whole


def test_without_rules_any_image_runs(owner: User, team: Team) -> None:
    assert submitted(owner, "train:1").image == "train:1"


def test_one_that_no_pattern_matches_is_refused(owner: User, org: Team, team: Team) -> None:
    set_rules(org, images=["registry.example.org/nlp/*", "docker.io/library/python*"])
    assert refused(owner, "pytorch/pytorch:2.5") == (
        "The rules of NLP allow the images docker.io/library/python*, registry.example.org/nlp/*; pytorch/pytorch:2.5 "
        "is none of them."
    )
    assert submitted(owner, "registry.example.org/nlp/train:1")
    assert submitted(owner, "python:3.12")


def test_a_pattern_without_a_registry_matches_no_registry_of_that_name(
    owner: User, org: Team, team: Team
) -> None:
    set_rules(org, images=["train:*", "pytorch/*"])
    assert submitted(owner, "train:1")
    assert submitted(owner, "docker.io/library/train:2")
    assert submitted(owner, "pytorch/pytorch:2.5")
    for image in ("train:5000/evil", "pytorch.example/evil"):
        with pytest.raises(Refusal, match="is none of them"):
            submitted(owner, image)
    above = merged([TeamRules(images=["train:*"], may_be_widened=False)])
    assert wider_than_allowed(above, TeamRules(images=["train:5000/evil"])) == ["images"]
    assert wider_than_allowed(above, TeamRules(images=["docker.io/library/train:1.*"])) == []


def test_a_tag_is_refused_where_digests_are_required(owner: User, team: Team) -> None:
    set_rules(team, digest_required=True)
    assert refused(owner, "host:5000/train:1.4") == (
        "The rules of NLP allow images by digest only, and host:5000/train:1.4 names a tag: write "
        "host:5000/train@sha256:… in its place."
    )
    assert submitted(owner, f"host:5000/train@{DIGEST}")


@pytest.mark.parametrize("digest", ["sha256:12", "md5:" + "0" * 32, "", "sha256:" + "0F" * 32])
def test_a_digest_that_none_can_be_is_refused(owner: User, team: Team, digest: str) -> None:
    told = refused(owner, f"train@{digest}")
    assert "64 small hexadecimal digits" in told
    assert repr(digest) in told


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "is no pattern of images"),
        ("train me", "is no pattern of images"),
        ("a//b*", "a part of the name is empty"),
        ("registry.example.org/NLP/*", "repositories are written in small letters"),
        ("train@sha256:12", "after @ stands sha256:"),
    ],
)
def test_a_pattern_that_can_match_nothing_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        TeamRules(images=(pattern,))


def test_below_only_what_is_allowed_above_can_be_allowed() -> None:
    above = TeamRules(images=("a.example/*",), digest_required=True)
    below = TeamRules(images=("a.example/nlp/*", "b.example/*"), digest_required=False)
    found = merged([above, below])
    assert (found.images, found.digest_required) == (("a.example/nlp/*",), True)
    assert wider_than_allowed(merged([above]), below) == ["images", "digest_required"]
    assert merged([TeamRules(digest_required=True, may_be_widened=True), below]).digest_required is False
    assert EffectiveRules().images == ("*",)
