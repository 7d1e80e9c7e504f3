"""What-if over the API: who may try what, what the answer shows of others, and what is refused."""

from typing import Any
from unittest.mock import Mock

import pytest
from rest_framework.test import APIClient

from agentlink.models import Device
from chamber.models import User
from scheduling import api_what_if
from scheduling.cycle.cycle import run_cycle
from scheduling.reading import recent
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from scheduling.whatif import asking
from scheduling.whatif.desk import TooMany
from teams.models import Pool, Role, Share, Team
from teams.tests.factories import bind, make_team, member, set_share
from workloads.models import Attempt, Workload
from workloads.tests.factories import make_workload

URL = "/api/v1/what-if/"


def ask(user: User, body: dict[str, Any], status: int = 200) -> Any:
    recent.forget()
    asking.forget()
    client = APIClient()
    client.force_authenticate(user)
    answer = client.post(URL, body, format="json")
    assert answer.status_code == status, answer.content
    return answer.json()


@pytest.fixture
def full(acme: Acme) -> Acme:
    """Return Acme with Research's elastic work on all 12 GPUs, and two reserved workloads of Production waiting."""
    set_share(acme.production, acme.pool, gpus=0)
    running = [make_workload(acme.research, acme.owner, slug=f"burst-{n}", priority=70) for n in range(12)]
    run_cycle()
    run_pods(running)
    for number in range(2):
        make_workload(acme.production, acme.outsider, slug=f"wanted-{number}", priority=100)
    run_cycle()
    return acme


TWICE = {"teams": [{"team": "production", "shares": [{"pool": "main", "reservation": n} for n in (1, 2)]}]}


def share(pool: str = "main", **changes: Any) -> dict[str, Any]:
    return {"teams": [{"team": "production", "shares": [{"pool": pool, **changes}]}]}


def test_what_is_not_there_is_told_at_once_with_the_nearest_that_is(full: Acme) -> None:
    body = {
        "teams": [
            {"team": "productoin"},
            {"team": "production", "shares": [{"pool": "mian", "reservation": 1}]},
        ],
        "pools": [{"pool": "nowhere", "paused": True}],
        "nodes": [{"cluster": "east", "node": "n99", "cordoned": True}],
        "workload": {"name": "x", "team": "mars", "image": "x:1", "pods": 0},
    }
    errors = ask(full.admin, body, 404)["errors"]
    assert (
        errors["teams[0].team"]
        == "There is no team 'productoin' that you may see. Did you mean 'production'?"
    )
    assert (
        errors["teams[1].shares[0].pool"] == "There is no pool 'mian' that you may see. Did you mean 'main'?"
    )
    assert errors["pools[0].pool"] == "There is no pool 'nowhere' that you may see."
    assert errors["nodes"] == "There is no node 'n99' in a cluster 'east'."
    assert {errors["team"], errors["pods"]} == {
        "There is no team 'mars'.",
        "pods is 0; at least 1 is allowed.",
    }


def test_a_reservation_tells_figures_starts_and_preemptions(full: Acme) -> None:
    told = ask(full.admin, share(reservation=2))

    (production,) = [row for row in told["teams"] if row["team"] == "production"]
    assert production["before"] == {"guarantee": 0, "ceiling": None, "entitlement": 0}
    assert production["after"] == {"guarantee": 2, "ceiling": None, "entitlement": 2}
    assert (production["in_use_before"], production["in_use_after"]) == (0, 2)
    counts = {(row["change"], row["team"]): (row["workloads"], row["gpus"]) for row in told["counts"]}
    assert counts == {("preempted", "Research"): (2, 2), ("starts", "Production"): (2, 2)}
    assert told["settled"] is True
    assert Share.objects.get(team=full.production).reservation_milli == 0


def test_slices_are_told_apart_from_gpus(acme: Acme) -> None:
    cut = Device.objects.filter(node__name="n3")
    cut.update(slicing="mig", share_milli=143, gpu_type="mig-1g.10gb")
    for types, pods in ((["mig-1g.10gb"], 3), ([], 2)):
        make_workload(acme.research, acme.owner, pods=pods, gpu_milli=1000, gpu_types=types)

    told = ask(acme.admin, {"pools": [{"pool": "main", "paused": True}]})

    (count,) = [row for row in told["counts"] if row["change"] == "no-longer-starts"]
    assert (count["workloads"], count["gpus"], count["slices"], count["slice_gpus"]) == (2, 2.429, 3, 0.429)
    assert sorted((row["gpus"], row["slices"]) for row in told["workloads"]) == [(0.429, 3), (2, 0)]


def test_slices_of_cordoned_nodes_leave_the_pool_as_gpus_do(acme: Acme) -> None:
    for name in ("n2", "n3"):
        cut = Device.objects.filter(node__name=name)
        cut.update(slicing="mig", share_milli=143, gpu_type="mig-1g.10gb")
    Device.objects.filter(node__name="n2", index=0).update(foreign=True)

    told = ask(acme.admin, {"nodes": [{"cluster": "east", "node": "n3", "cordoned": True}]})

    (pool,) = told["pools"]
    states = [
        (state["capacity"], state["slices"], state["slice_gpus"]) for state in (pool["before"], pool["after"])
    ]
    assert states == [(5.001, 7, 1.001), (4.429, 3, 0.429)]


def test_a_preemption_names_for_whom_and_by_which_rule(full: Acme) -> None:
    told = ask(full.admin, share(reservation=1))

    (victim,) = [row for row in told["workloads"] if row["change"] == "preempted"]
    assert (victim["by"], victim["rule"]) == ("wanted-0", "reserved")
    assert victim["workload"].startswith("burst-")
    assert (victim["pool"], victim["priority"], victim["gpus"]) == ("main", 70, 1)


def test_who_leads_a_part_sees_of_others_only_team_class_priority_and_gpus(full: Acme) -> None:
    team = make_team(full.production, "Serving")
    set_share(full.production, full.pool, gpus=1)
    make_workload(team, full.outsider, slug="served", priority=100)
    lead = member(full.production, Role.LEAD, "lea")

    told = ask(lead, {"teams": [{"team": "serving", "shares": [{"pool": "main", "reservation": 1}]}]})

    victims = [row for row in told["workloads"] if row["team"] == "Research"]
    assert all(row["workload"] is None for row in victims)
    assert "burst-" not in str(told)
    assert {row["team"] for row in told["teams"]} <= {"production", "serving"}


def test_guarantees_that_do_not_fit_are_told_with_whose_they_are(full: Acme) -> None:
    told = ask(full.admin, share(reservation=6))

    (warning,) = told["warnings"]
    assert warning.startswith("The pool Main guarantees 14 GPUs, but has 12.")
    assert "Research 8" in warning
    assert "Production 6" in warning


def test_a_policy_that_preempts_nobody_spares_them(acme: Acme) -> None:
    running = [make_workload(acme.research, acme.owner, priority=10) for _ in range(12)]
    run_cycle()
    run_pods(running)
    make_workload(acme.production, acme.outsider, priority=60)

    told = ask(acme.admin, {"pools": [{"pool": "main", "policy": {"elastic_preemption": "never"}}]})

    changes = {row["change"]: row for row in told["counts"]}
    assert set(changes) == {"spared", "no-longer-starts"}
    assert (changes["spared"]["team"], changes["spared"]["workloads"]) == ("Research", 1)


def test_a_cordoned_node_takes_its_gpus_out_of_the_pool(acme: Acme) -> None:
    waiting = [make_workload(acme.research, acme.owner, gpu_milli=4000) for _ in range(3)]

    told = ask(acme.admin, {"nodes": [{"cluster": "east", "node": "n1", "cordoned": True}]})

    (pool,) = told["pools"]
    assert (pool["before"]["capacity"], pool["after"]["capacity"]) == (12, 8)
    assert (pool["before"]["in_use"], pool["after"]["in_use"]) == (12, 8)
    assert pool["before"]["slices"] == 0
    (count,) = told["counts"]
    assert (count["change"], count["workloads"]) == ("no-longer-starts", 1)
    assert Workload.objects.filter(pk__in=[row.pk for row in waiting], status="pending").count() == 3


def test_a_drained_node_says_who_leaves_it_and_who_is_waited_for(acme: Acme) -> None:
    set_share(acme.production, acme.pool, gpus=1)
    workloads = [
        make_workload(acme.research, acme.owner, slug="small"),
        make_workload(acme.production, acme.outsider, slug="firm", priority=100),
    ]
    run_cycle()
    run_pods(workloads)

    nodes = [{"cluster": "east", "node": node.name, "drained": True} for node in acme.pool.nodes.all()]
    told = ask(acme.admin, {"nodes": nodes})

    assert [(row["workload"], row["change"], row["message"]) for row in told["workloads"]] == [
        ("firm", "blocks", "Reserved work is not preempted; the node is empty when it has ended."),
        ("small", "preempted", "Its node is drained. It waits again."),
    ]
    assert told["workloads"][1]["reason_after"]
    assert not Attempt.objects.filter(ended_at__isnull=False).exists()


@pytest.mark.parametrize("node", [{}, {"drained": False}, {"drained": True, "cordoned": True}])
def test_a_node_is_either_cordoned_or_drained(acme: Acme, node: dict[str, bool]) -> None:
    told = ask(acme.admin, {"nodes": [{"cluster": "east", "node": "n1", **node}]}, 422)

    assert "either whether it is cordoned or that it is drained" in str(told)


def test_a_workload_that_nobody_submitted_says_what_would_become_of_it(full: Acme) -> None:
    asked = {"name": "idea", "team": "research", "image": "registry.example/x:1", "priority": 100, "gpus": 2}

    told = ask(full.owner, {"workload": asked})

    assert told["outcome"].startswith("It would start after preempting 2 workloads with 2 GPUs on n")
    assert {row["by"] for row in told["workloads"]} == {"the new workload"}
    assert not Workload.objects.filter(name="idea").exists()


def test_who_would_be_ahead_of_it_is_named_only_to_who_may_see_it(acme: Acme) -> None:
    Pool.objects.update(policy={"queueing": "strict-fifo"})
    running = make_workload(acme.research, acme.owner, gpu_milli=4000, priority=100, time_limit_seconds=3600)
    run_cycle()
    run_pods([running])
    make_workload(acme.production, acme.outsider, slug="first", gpu_milli=4000, pods=3, priority=90)
    asked = {"name": "idea", "team": "research", "image": "registry.example/x:1", "priority": 10, "gpus": 4}

    told = ask(acme.owner, {"workload": asked})["outcome"]

    assert told.startswith("It would wait. It asks for 4 GPUs")
    assert "nobody passes an elastic workload of Production (priority 90), which is ahead of it" in told


def test_several_edits_are_tried_together(full: Acme) -> None:
    body = share(reservation=4) | {"pools": [{"pool": "main", "paused": True}]}

    told = ask(full.admin, body)

    assert [row["change"] for row in told["counts"]] == ["other-reason"]
    assert told["workloads"][0]["reason_after"] == "pool-paused"


def test_usage_is_known_to_a_pool_that_would_begin_to_go_by_it(full: Acme) -> None:
    told = ask(full.admin, {"pools": [{"pool": "main", "policy": {"fairness": "usage"}}]})

    assert (told["counts"], told["warnings"]) == ([], [])


@pytest.mark.parametrize(
    ("who", "body", "status"),
    [
        ("owner", share(reservation=1), 404),
        ("mate", {"teams": [{"team": "research", "bursting_priority": 2}]}, 403),
        ("stranger", share(reservation=1), 404),
        ("stranger", {"pools": [{"pool": "main", "paused": True}]}, 404),
        ("owner", {"pools": [{"pool": "main", "paused": True}]}, 403),
        ("owner", {"nodes": [{"cluster": "east", "node": "n1", "cordoned": True}]}, 403),
        ("stranger", {"nodes": [{"cluster": "east", "node": "n1", "cordoned": True}]}, 404),
        ("owner", {"workload": {"name": "x", "team": "production", "image": "x:1"}}, 404),
    ],
)
def test_who_may_not_save_it_may_not_try_it(acme: Acme, who: str, body: dict[str, Any], status: int) -> None:
    ask(getattr(acme, who), body, status)


def test_an_operator_tries_policies_and_nodes_but_no_shares(acme: Acme) -> None:
    operator = member(acme.root, Role.OPERATOR, "oscar")

    ask(operator, {"nodes": [{"cluster": "east", "node": "n1", "cordoned": True}]})
    ask(operator, {"pools": [{"pool": "main", "paused": True}]})
    ask(operator, share(reservation=1), 403)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "The draft changes nothing"),
        ({"teams": []}, "The draft changes nothing"),
        ({"team": []}, "There is no 'team' here"),
        ({"teams": [{"team": "production", "bursting_priority": 11}]}, "from 1 to 10, not 11"),
        ({"teams": [{"team": "production", "burst_limit_percent": -1}]}, "not -1 %"),
        ({"teams": [{"team": "production", "maximum": 1}]}, "above its maximum of 1 GPU"),
        ({"teams": [{"team": "production", "version": 7, "maximum": 9}]}, "you edited version 7"),
        (
            share(reservation=0.0001),
            "reservation is 0.0001; it must be a number of GPUs of at most 1,000,000, in steps of 0.001.",
        ),
        (share(reservation=-1), "A reservation is from 0"),
        ({"teams": [{"team": "production"}, {"team": "production"}]}, "'production' comes 2 times"),
        ({"pools": [{"pool": "main"}, {"pool": "main"}]}, "'main' comes 2 times"),
        (TWICE, "names each pool of Production once"),
        ({"pools": [{"pool": "main", "policy": {"min_runtime_seconds": -1}}]}, "min_runtime_seconds"),
        ({"workload": {"name": "x"}}, "team"),
        ({"workload": {"name": "x", "team": "research", "image": "x:1", "gpus": 1.25}}, "1.25"),
        ({"workload": 7}, "7"),
    ],
)
def test_a_draft_that_cannot_be_is_refused_with_value_and_allowed(
    acme: Acme, body: dict[str, Any], sentence: str
) -> None:
    status = 412 if "version 7" in sentence else 422

    assert sentence in str(ask(acme.admin, body, status))


def test_unknown_pools_and_nodes_are_not_found(acme: Acme) -> None:
    ask(acme.admin, share(pool="nowhere", reservation=1), 404)
    ask(acme.admin, {"pools": [{"pool": "nowhere"}]}, 404)
    ask(acme.admin, {"nodes": [{"cluster": "east", "node": "n99", "cordoned": True}]}, 404)


def test_too_many_nodes_are_refused(acme: Acme) -> None:
    nodes = [{"cluster": "east", "node": f"n{n}", "cordoned": True} for n in range(201)]

    assert "at most 200 nodes, not 201" in str(ask(acme.admin, {"nodes": nodes}, 422))


def test_an_answer_that_takes_long_is_asked_for_again(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ask", Mock(return_value=None))

    assert "ask the same again" in ask(acme.admin, share(reservation=1), 202)["detail"]


def test_one_too_many_is_told_when_to_come_back(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise TooMany

    monkeypatch.setattr(asking, "ask", refuse)
    client = APIClient()
    client.force_authenticate(acme.admin)
    answer = client.post(URL, share(reservation=1), format="json")

    assert (answer.status_code, answer.headers["Retry-After"]) == (429, str(api_what_if.AGAIN_SECONDS))


def test_who_is_not_signed_in_is_refused() -> None:
    assert APIClient().post(URL, {}, format="json").status_code == 401


def test_a_child_without_a_share_takes_the_version_that_is_stored(acme: Acme) -> None:
    bind(acme.mate, acme.research, Role.ADMIN)
    make_team(acme.research, "NLP")

    told = ask(acme.mate, {"teams": [{"team": "nlp", "shares": [{"pool": "main", "reservation": 3}]}]})

    assert [row["team"] for row in told["teams"]] == ["nlp"]
    assert not Share.objects.filter(team=Team.objects.get(slug="nlp")).exists()
