"""Each mistake in a submission has a sentence with the value and what is allowed."""

from typing import Any

import pytest

from chamber.errors import Refusal
from workloads.requests import SubmissionRequest, Unreadable, parse_all

GOOD = {"name": "bert", "team": "nlp", "image": "registry.example/train:1"}

BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "1.25 GPUs": ({"gpus": 1.25}, "gpus", "nearest legal values are 1 and 2"),
    "0.3 GPUs": ({"gpus": 0.3}, "gpus", "nearest legal values are 0.25 and 0.5"),
    "0.8 GPUs": ({"gpus": "0.8"}, "gpus", "nearest legal values are 0.75 and 1"),
    "no GPUs": ({"gpus": 0}, "gpus", "nearest legal value is 0.25"),
    "fewer than none": ({"gpus": -2}, "gpus", "cannot have -2 GPUs"),
    "not a number of GPUs": ({"gpus": "many"}, "gpus", "'many' is not a number of GPUs"),
    "not a number": ({"gpus": "nan"}, "gpus", "'nan' is not a number of GPUs"),
    "true GPUs": ({"gpus": True}, "gpus", "true is not a number of GPUs"),
    "digits apart": ({"gpus": "1_000"}, "gpus", "'1_000' is not a number of GPUs"),
    "wide digits": ({"gpus": "\uff14"}, "gpus", "is not a number of GPUs"),
    "a priority below all": (
        {"priority": "-1"},
        "priority",
        "'-1' is no priority: give a whole number from 0 to 1,000,000",
    ),
    "a part of a priority": ({"priority": 1.5}, "priority", "1.5 is no priority: give a whole number"),
    "a mapping as command": (
        {"command": {"a": 1}},
        "command",
        "it must be text, which sh -c runs, or a list",
    ),
    "a mapping as toleration": (
        {"tolerations": [{"key": 5}]},
        "tolerations",
        "it must be text, such as key or key=value.",
    ),
    "an unknown effect": (
        {"tolerations": ["a=b:Bogus"]},
        "tolerations",
        "NoSchedule, PreferNoSchedule or NoExecute.",
    ),
    "a century": ({"time_limit": "36500d"}, "time_limit", "at most 3650d is allowed."),
    "GPUs without end": ({"gpus": "1e999999"}, "gpus", "at most 1,024"),
    "next to no GPUs": ({"gpus": "1e-999999"}, "gpus", "nearest legal value is 0.25"),
    "zero pods": ({"pods": 0}, "pods", "pods is 0; at least 1 is allowed"),
    "half a pod": ({"pods": 1.5}, "pods", "pods is 1.5; it must be a whole number"),
    "truth for pods": ({"pods": True}, "pods", "no number"),
    "truth to start with": ({"min_pods": True}, "min_pods", "no number"),
    "truth for GPUs": ({"gpus": True}, "gpus", "not a number of GPUs"),
    "truth for memory": ({"memory_mib": True}, "memory_mib", "no number"),
    "truth for retries": ({"max_retries": True}, "max_retries", "no number"),
    "truth for a time limit": ({"time_limit": True}, "time_limit", "True"),
    "too many pods": ({"pods": 100_001}, "pods", "at most 100,000"),
    "starts with more than all": ({"pods": 2, "min_pods": 3}, "min_pods", "3 of 2 pods"),
    "share and memory": ({"gpus": 1, "gpu_memory_mib": 10}, "gpu_memory_mib", "not both"),
    "no image": ({"image": ""}, "image", "image is missing"),
    "an image with blanks": ({"image": "a b"}, "image", "no blanks"),
    "no name": ({"name": " "}, "name", "name is missing"),
    "a long name": ({"name": "x" * 101}, "name", "at most 100 characters"),
    "a class without a name": ({"job_class": ""}, "job_class", "job_class is missing"),
    "no name of a tier": ({"priority": "Very urgent!"}, "priority", "the name of a priority tier"),
    "a priority below none": ({"priority": -1}, "priority", "-1 is no priority: give a whole number from 0"),
    "a time limit in words": (
        {"time_limit": "4 fortnights"},
        "time_limit",
        "'4 fortnights' is not a duration: write seconds, or numbers with w, d, h, m or s, such as 30m",
    ),
    "a time limit of nothing": ({"time_limit": 0}, "time_limit", "time_limit is 0; at least 1"),
    "a time limit of ages": ({"time_limit_seconds": "4000d"}, "time_limit_seconds", "at most 3650d"),
    "a time limit without end": ({"time_limit": "9" * 400}, "time_limit", "is not a duration"),
    "two time limits": (
        {"time_limit": "1h", "time_limit_seconds": 5},
        "time_limit",
        "Give either time_limit or time_limit_seconds, not both.",
    ),
    "a grace of days": ({"grace": "2d"}, "grace", "grace is '2d'; at most 1d is allowed"),
    "a gang in words": ({"gang": "perhaps"}, "gang", "gang is 'perhaps'; it must be true or false."),
    "memory in words": ({"memory_mib": "lots"}, "memory_mib", "'lots' is not an amount of memory"),
    "a bad variable": ({"environment": {"1st": "x"}}, "environment", "'1st' is no name"),
    "a variable without text": (
        {"environment": {"A": None}},
        "environment",
        "environment.A is null; it must be text.",
    ),
    "an unknown key": ({"gpu": 1}, "gpu", "There is no field 'gpu'; did you mean 'gpus'?"),
    "a NUL": ({"command": ["a\0b"]}, "workload", "NUL"),
    "a long argument": ({"command": ["x" * 32_769]}, "command", "at most 32,768 characters"),
    "a long variable": ({"environment": {"A": "x" * 32_769}}, "environment", "at most 32,768"),
    "a variable with a long name": ({"environment": {"A" * 301: "x"}}, "environment", "at most 300"),
    "too much to run": ({"command": ["\x01" * 30_000] * 2}, "workload", "at most 262,144 are allowed"),
    "an unknown way out": ({"on_preemption": "cry"}, "on_preemption", "'requeue' or 'stop'"),
}


@pytest.mark.parametrize(("change", "field", "sentence"), BAD.values(), ids=BAD.keys())
def test_a_mistake_has_a_sentence(change: dict[str, Any], field: str, sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        SubmissionRequest.parse(GOOD | change)
    assert list(refused.value.fields) == [field]
    assert sentence in refused.value.fields[field]
    assert refused.value.status == 422


def test_the_escape_of_a_nul_in_a_command_is_none() -> None:
    assert SubmissionRequest.parse(GOOD | {"command": [r"printf '\x00'"]}).command == [r"printf '\x00'"]


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(Refusal) as refused:
        SubmissionRequest.parse({"pods": 0, "gpus": 1.25})
    assert set(refused.value.fields) == {"name", "team", "image", "pods", "gpus"}


@pytest.mark.parametrize("data", [None, [], "text", 7])
def test_what_is_no_object_is_refused(data: object) -> None:
    with pytest.raises(Refusal, match="object with name, team, image"):
        SubmissionRequest.parse(data)


@pytest.mark.parametrize(
    ("gpus", "milli"),
    [(0.25, 250), ("0.5", 500), (0.75, 750), (1, 1000), ("8", 8000), (1.0, 1000), (None, 1000)],
)
def test_legal_shares_are_taken(gpus: object, milli: int) -> None:
    assert SubmissionRequest.parse(GOOD | {"gpus": gpus}).gpu_milli == milli


def test_words_of_people_become_numbers() -> None:
    asked = SubmissionRequest.parse(
        GOOD
        | {
            "priority": "reserved",
            "time_limit": "1h 30m",
            "memory_mib": "64 GiB",
            "gpu_memory_mib": "10Gi",
            "command": "echo hello",
            "environment": {"EPOCHS": 3},
            "pods": 4,
            "gang": False,
        }
    )
    assert (asked.priority, asked.time_limit_seconds, asked.memory_mib) == ("reserved", 5400, 65536)
    assert (asked.gpu_milli, asked.gpu_memory_mib, asked.starting_pods) == (None, 10240, 1)
    assert asked.command == ["sh", "-c", "echo hello"]
    assert asked.environment == {"EPOCHS": "3"}


def test_what_is_named_twice_is_taken_once() -> None:
    asked = SubmissionRequest.parse(
        {
            "name": "a",
            "team": "t",
            "image": "i",
            "gpu_types": ["H100", "A100", "H100"],
            "pools": ["b", "a", "b"],
        }
    )
    assert (asked.gpu_types, asked.pools) == (["H100", "A100"], ["b", "a"])


def test_a_gang_starts_with_all_its_pods() -> None:
    assert SubmissionRequest.parse(GOOD | {"pods": 4}).starting_pods == 4


def test_mistakes_of_several_are_addressed_by_index() -> None:
    with pytest.raises(Refusal) as refused:
        parse_all({"workloads": [GOOD, GOOD | {"pods": 0}, GOOD | {"gpus": 1.25}]})
    assert set(refused.value.fields) == {"workloads[1].pods", "workloads[2].gpus"}
    assert refused.value.message.startswith("workloads[1].pods: ")


def test_nothing_stands_beside_several_but_a_dry_run_of_the_api() -> None:
    body = {"workloads": [GOOD | {"pods": 0}], "team": "nlp", "dry_run": "yes"}
    with pytest.raises(Unreadable) as refused:
        parse_all(body, may_be_dry=True)
    assert refused.value.fields == {
        "team": "There is no 'team' beside workloads; known are workloads, dry_run.",
        "dry_run": "dry_run is 'yes'; it must be true or false.",
        "pods": "pods is 0; at least 1 is allowed.",
    }
    with pytest.raises(Unreadable, match="There is no 'dry_run' beside workloads"):
        parse_all({"workloads": [GOOD], "dry_run": True})


@pytest.mark.parametrize("items", [[], {}, "x", None, [GOOD] * 1001])
def test_a_list_is_bounded_and_not_empty(items: object) -> None:
    with pytest.raises(Refusal) as refused:
        parse_all({"workloads": items})
    assert list(refused.value.fields) == ["workloads"]
