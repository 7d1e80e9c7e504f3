"""The plan as JSON."""

import json

import pytest

from scheduling.engine import Eta
from scheduling.scenario.output import Object, as_object, as_text, eta_times, time_text

from .plans import PLAN, scenario

REASON_VICTIMS = {
    "code": "waiting-for-victims",
    "kind": "wait",
    "message": "Waits for 2 victims.",
    "next_step": "Wait.",
}


def _result() -> Object:
    found = scenario()
    return as_object(found.snapshot, found.now, PLAN)


def _workload(name: str) -> dict[str, object]:
    found: dict[str, dict[str, dict[str, object]]] = json.loads(as_text(_result()))
    return found["workloads"][name]


def test_a_newcomer_stands_with_its_places_its_allocation_and_its_victims() -> None:
    assert _workload("comes") == {
        "action": "start",
        "status": "queued",
        "pool": "main",
        "allocation": [{"team": "lab", "gpus": 3.0}, {"team": "acme", "gpus": 1.0}],
        "nodes": {"n1": 2.0, "n2": 2.0},
        "pods": 2,
        "preempts": ["goes", "shrinks"],
        "reason": REASON_VICTIMS,
    }


def test_a_kept_one_stands_with_what_it_has() -> None:
    assert _workload("runs") == {
        "action": "keep",
        "status": "running",
        "pool": "main",
        "allocation": [{"team": "lab", "gpus": 0.25}],
        "nodes": {"n0": 0.25},
        "pods": 1,
        "preempts": [],
        "reason": None,
    }


def test_pods_gained_and_lost_are_counted() -> None:
    grows, shrinks = _workload("grows"), _workload("shrinks")
    assert (grows["action"], grows["pods"], grows["nodes"]) == ("grow", 2, {"n0": 1.0, "n2": 1.0})
    assert (shrinks["action"], shrinks["pods"], shrinks["nodes"]) == ("shrink", 1, {"n0": 1.0})
    assert (shrinks["preempted_by"], grows["allocation"]) == ("comes", [{"team": None, "gpus": 2.0}])


def test_a_victim_names_who_took_its_place() -> None:
    assert _workload("goes") == {
        "action": "preempt",
        "status": "preempted",
        "preempted_by": "comes",
        "reason": {
            "code": "preempted",
            "kind": "wait",
            "message": "Preempted by comes.",
            "next_step": "Wait.",
        },
    }


def test_who_waits_has_a_place_a_time_and_the_numbers() -> None:
    waits = _workload("waits")
    assert (waits["position"], waits["eta"]) == (1, ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"])
    assert waits["reason"] == {
        "code": "waiting-for-gpus",
        "kind": "wait",
        "message": "Asks for 4 GPUs, 0.5 are free.",
        "next_step": "Wait.",
        "asked": 4.0,
        "available": 0.5,
    }


def test_who_is_not_in_the_queue_has_neither() -> None:
    held = _workload("held")
    assert (held["action"], held["status"], held["pool"], held["position"], held["eta"]) == (
        ("wait", "pending", None, None, None)
    )
    assert held["reason"] == {
        "code": "held",
        "kind": "change",
        "message": "It is held.",
        "next_step": "Release it.",
        "limit": 0.0,
        "team": "acme",
        "level": "acme",
    }


def test_figures_are_gpus_exact_to_a_thousandth_and_no_limit_is_null() -> None:
    result = _result()
    assert result["pools"] == {
        "main": {
            "capacity": 12.0,
            "in_use": 7.25,
            "free": 4.75,
            "oversubscribed": True,
            "fragmentation": 0.3333,
        }
    }
    lab = json.loads(as_text(result))["teams"]["lab"]["main"]
    assert lab == {
        "guarantee": 3.0,
        "ceiling": None,
        "in_use": 7.25,
        "reserved_in_use": 4.25,
        "demand": 7.25,
        "entitlement": 0.333,
    }


def test_keys_are_sorted_and_the_bytes_are_the_same_each_time() -> None:
    once, again = as_text(_result()), as_text(_result())
    assert once == again
    assert once.isascii()
    assert once.endswith("}\n")
    assert once == json.dumps(json.loads(once), indent=2, sort_keys=True) + "\n"


@pytest.mark.parametrize(
    ("eta", "times"),
    [
        (Eta(), ()),
        (Eta(1000), ("1970-01-01T00:00:01Z",)),
        (Eta(1000, 1000), ("1970-01-01T00:00:01Z",)),
        (Eta(0, 1500), ("1970-01-01T00:00:00Z", "1970-01-01T00:00:01.500Z")),
    ],
)
def test_an_eta_is_no_time_one_or_a_range(eta: Eta, times: tuple[str, ...]) -> None:
    assert eta_times(eta) == times


def test_times_are_in_utc() -> None:
    assert time_text(1_767_225_600_000) == "2026-01-01T00:00:00Z"
