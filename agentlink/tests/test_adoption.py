"""Jobs that an agent discovers become workloads of the team whose the namespace is, or are refused with a sentence."""

import hashlib
import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from pytest_django import DjangoAssertNumQueries

from agentlink import adoption, desired, spaces
from agentlink.models import AdoptedJob, BoundNamespace
from agentlink.protocol import (
    Desired,
    Discovered,
    DiscoveredJob,
    Error,
    NamespaceReport,
    Observed,
    ReportedPhase,
    Verdict,
    Verdicts,
)
from agentlink.tests.agents import Hand, admit, devices_of, report
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster, make_node
from chamber.errors import Conflict, NotAllowed
from chamber.ids import new_id
from teams.actions import set_rules
from teams.actors import Actor
from teams.models import Binding, PriorityTier, Role, Team, TeamPolicy, TeamRules
from teams.tests.factories import actor, make_team, member
from workloads import actions
from workloads.actions import may_control
from workloads.models import Status, Workload
from workloads.reasons import REFUSAL_STEPS, of_refusal

pytestmark = pytest.mark.django_db
READY = (NamespaceReport(namespace="nlp-jobs", ready=True),)


@pytest.fixture
def bound(place: Place) -> BoundNamespace:
    """The namespace `nlp-jobs` of cluster east is NLP's."""
    return spaces.bind_namespace(
        by=Actor.system("test"), cluster=place.cluster, team=place.team, namespace="nlp-jobs"
    )


def job(uid: str = "u1", **fields: Any) -> DiscoveredJob:
    given = {"namespace": "nlp-jobs", "name": "train", "gpus": 1, "image": "registry.example/train:1"}
    return DiscoveredJob(uid=uid, **{**given, **fields})


def discover(hand: Hand, *jobs: DiscoveredJob, version: int = 1, **fields: Any) -> dict[str, Verdict]:
    """Say what was discovered; return the verdicts by uid."""
    answer = hand.say(Discovered(version=version, namespaces=READY, jobs=jobs, **fields))
    found = [message for message in answer.messages if isinstance(message, Verdicts)]
    return {verdict.uid: verdict for message in found for verdict in message.verdicts}


def test_a_job_becomes_a_workload_of_the_namespaces_team(place: Place, bound: BoundNamespace) -> None:
    asked = job(pods=2, gpus=4, cpu_milli=8000, memory_mib=512, command=("python", "x.py"), who="mallory")
    verdict = discover(Hand(place.cluster), asked)["u1"]
    workload = Workload.objects.get()
    assert (verdict.workload, verdict.refused) == (workload.slug, "")
    assert (workload.team, workload.owner, workload.priority) == (place.team, bound.owner, 50)
    assert (workload.pods, workload.min_pods, workload.gpu_milli) == (2, 2, 4000)
    assert (workload.cpu_milli, workload.memory_mib) == (8000, 512)
    assert workload.node_selector == {"chamber.internal/cluster": "east"}
    event = workload.events.get()
    assert (
        event.message
        == 'Adopted from the Job nlp-jobs/train of east; its annotation names "mallory" as owner.'
    )
    assert (event.actor, event.user) == ("agent of east", None)
    assert not bound.owner.is_active
    assert not bound.owner.has_usable_password()


def test_a_job_that_is_told_again_is_the_same_workload(place: Place, bound: BoundNamespace) -> None:
    hand = Hand(place.cluster)
    first = discover(hand, job())
    assert discover(hand, job()) == discover(Hand(place.cluster), job(who="somebody else")) == first
    assert Workload.objects.count() == 1


def test_what_is_told_again_costs_a_bounded_number_of_queries(
    place: Place, bound: BoundNamespace, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    hand, many = Hand(place.cluster), [job(f"u{number:03}", name=f"j{number}") for number in range(40)]
    assert all(verdict.workload for verdict in discover(hand, *many).values())
    with django_assert_max_num_queries(14):
        discover(hand, *many)


@pytest.mark.parametrize(
    ("asked", "given"), [("", 50), ("low", 25), ("75", 75), ("99", 75), ("100", 100), ("5000", 100)]
)
def test_a_priority_is_capped_by_what_the_teams_researchers_may_give(
    place: Place, bound: BoundNamespace, asked: str, given: int
) -> None:
    verdict = discover(Hand(place.cluster), job(priority=asked))["u1"]
    workload = Workload.objects.get()
    assert workload.priority == given
    lowered = asked in {"99", "5000"}
    assert ("was lowered to" in verdict.note) is lowered
    assert (verdict.note in workload.events.get().message) is True


REFUSED = {
    "what the agent found": ({"problems": ("It mounts a path of the node (/).",)}, "a path of the node"),
    "another service account": ({"service_account": "cluster-admin"}, "'cluster-admin'; NLP allows"),
    "a kind of volume": ({"volumes": ("csi", "secret")}, "It mounts csi; NLP allows"),
    "Secrets": (
        {"secrets": ("admin", "db")},
        "It reads the Secrets admin, db; NLP allows Jobs by kubectl: none.",
    ),
    "no GPUs": ({"gpus": 0}, "cannot have 0 GPUs"),
    "larger than anything": ({"gpus": 4, "pods": 90}, "at once"),
    "a word for a priority": ({"priority": "urgent"}, "'urgent'; give a number, or one of low, normal"),
    "an image that is none": ({"image": ""}, "image"),
}


@pytest.mark.parametrize(("fields", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_adopted_is_refused_with_a_sentence(
    place: Place, bound: BoundNamespace, fields: dict[str, Any], told: str
) -> None:
    verdict = discover(Hand(place.cluster), job(**fields))["u1"]
    assert told in verdict.refused
    assert not Workload.objects.exists()
    bound.refresh_from_db()
    assert bound.refused == [{"name": "train", "why": verdict.refused}]


def test_the_policy_of_the_team_may_allow_more(place: Place, bound: BoundNamespace) -> None:
    rules = {"service_accounts": ["trainer"], "volumes": ["csi"], "may_be_widened": True}
    TeamPolicy.objects.create(team=Team.objects.get(parent=None), rules={"may_be_widened": True})
    TeamPolicy.objects.create(team=place.team, rules=rules)
    hand = Hand(place.cluster)
    assert discover(hand, job(service_account="trainer", volumes=("csi",)))["u1"].workload
    assert "'default'" in discover(hand, job("u2", name="b"))["u2"].refused


def test_which_secrets_and_config_maps_a_job_may_read_the_policy_names(
    place: Place, bound: BoundNamespace
) -> None:
    root = Team.objects.get(parent=None)
    by = Actor.system("test")
    set_rules(by=by, team=root, version=0, rules=TeamRules(secrets=("wandb", "db"), config_maps=("shared",)))
    set_rules(by=by, team=place.team, version=0, rules=TeamRules(secrets=("wandb",)))
    hand = Hand(place.cluster)
    assert discover(hand, job(secrets=("wandb",), config_maps=("shared",)))["u1"].workload
    refused = discover(hand, job("u2", name="b", secrets=("db", "wandb"), config_maps=("own", "shared")))[
        "u2"
    ].refused
    assert refused == (
        "It reads the Secret db; NLP allows Jobs by kubectl: wandb. "
        "It reads the ConfigMap own; NLP allows Jobs by kubectl: shared."
    )


def test_what_a_later_agent_finds_wrong_ends_no_job_that_runs(place: Place, bound: BoundNamespace) -> None:
    hand = Hand(place.cluster)
    discover(hand, job())
    workload = Workload.objects.get()
    admit(
        place.team,
        place.owner,
        place.pool,
        place.cluster,
        devices_of(place.cluster, "n1")[:1],
        workload=workload,
    )
    later = job(problems=("It tolerates every taint.",), secrets=("db",))
    assert discover(hand, later)["u1"].workload == workload.slug
    Workload.objects.update(status=Status.PENDING, attempt=None)
    assert (
        discover(hand, later)["u1"].refused
        == "It tolerates every taint. It reads the Secret db; NLP allows Jobs by kubectl: none."
    )
    assert Workload.objects.get().status == Status.CANCELLED


def test_another_namespace_or_another_teams_counts_for_nobody_else(
    place: Place, bound: BoundNamespace
) -> None:
    other = make_team(Team.objects.get(parent=None), "Vision")
    spaces.bind_namespace(by=Actor.system("test"), cluster=place.cluster, team=other, namespace="vision-jobs")
    verdicts = discover(
        Hand(place.cluster), job("u1", namespace="vision-jobs"), job("u2", namespace="elsewhere"), version=2
    )
    assert verdicts.keys() == {"u1"}
    assert Workload.objects.get().team == other


def test_a_job_that_is_not_there_any_more_cancels_its_workload(place: Place, bound: BoundNamespace) -> None:
    hand = Hand(place.cluster)
    discover(hand, job())
    discover(hand)
    workload = Workload.objects.get()
    assert (workload.status, workload.reason_code) == (Status.CANCELLED, "job-deleted")
    assert workload.reason["message"] == "Its Job nlp-jobs/train was deleted in the cluster."
    assert "Create the Job again" in workload.reason["next_step"]


UNKNOWN = {
    "a namespace that is not ready": {"namespaces": (NamespaceReport(namespace="nlp-jobs", ready=False),)},
    "older bindings": {"version": 0},
    "a part that speaks for others": {"after": "u5"},
    "a part before it": {"last": False},
}


@pytest.mark.parametrize("message", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_is_not_spoken_of_stays(place: Place, bound: BoundNamespace, message: dict[str, Any]) -> None:
    hand = Hand(place.cluster)
    discover(hand, job())
    hand.say(Discovered(**{"version": 1, "namespaces": READY, "jobs": (), **message}))
    assert Workload.objects.get().status == Status.PENDING


def test_a_job_that_was_changed_is_looked_at_anew_and_loses_its_place(
    place: Place, bound: BoundNamespace
) -> None:
    hand = Hand(place.cluster)
    first = discover(hand, job())["u1"].workload
    second = discover(hand, job(pods=2))["u1"].workload
    assert first != second
    old, new = Workload.objects.get(slug=first), Workload.objects.get(slug=second)
    assert (old.status, old.reason_code, new.status, new.pods) == ("cancelled", "job-changed", "pending", 2)
    assert "looked at anew" in old.reason["next_step"]
    assert AdoptedJob.objects.filter(current=True).get().workload == new
    assert discover(hand, job(pods=2, problems=("It has no pods.",)))["u1"].refused == "It has no pods."
    assert Workload.objects.get(slug=second).status == Status.CANCELLED


def test_a_job_that_has_ended_is_neither_adopted_nor_run_again(place: Place, bound: BoundNamespace) -> None:
    hand = Hand(place.cluster)
    assert discover(hand, job(finished=True)) == {}
    discover(hand, job("u2"))
    workload = Workload.objects.get()
    discover(hand, job("u2", finished=True))
    workload.refresh_from_db()
    assert (workload.status, workload.reason_code) == (Status.CANCELLED, "job-ended")
    with pytest.raises(Conflict, match=r"cannot run again: .*kubectl delete job train"):
        actions.requeue(by=Actor.system("test"), workload=workload)
    assert actions.act_on_many(by=Actor.system("test"), act="requeue", workloads=[workload]) == set()
    workload.refresh_from_db()
    assert (workload.status, workload.reason_code) == (Status.CANCELLED, "job-ended")
    assert (
        workload.reason["message"] == "Its Job nlp-jobs/train has ended in the cluster and cannot run again."
    )
    assert workload.reason["next_step"] == (
        "To run it again, delete the Job first: kubectl delete job train -n nlp-jobs. Then create it again, suspended."
    )


EVICTED = "Pod 0 on n1 was evicted, as when its node is drained."
ENDED = "Its Job nlp-jobs/train has ended in the cluster and cannot run again"
ENDED_BY_IT = f"{ENDED}, for it allows no failure (backoffLimit 0): {EVICTED}"


def test_a_job_that_an_eviction_ended_is_cancelled_with_its_attempt(
    place: Place, bound: BoundNamespace
) -> None:
    hand = Hand(place.cluster)
    discover(hand, job())
    workload = Workload.objects.get()
    (device, *_) = devices_of(place.cluster, "n1")
    attempt = admit(place.team, place.owner, place.pool, place.cluster, [device], workload=workload)
    said = report(attempt, ReportedPhase.FAILED, 1, reason="job-ended", message=ENDED_BY_IT)
    hand.say(Observed(reports=(said,)))
    workload.refresh_from_db()
    attempt.refresh_from_db()
    assert (workload.status, workload.reason["message"]) == (Status.CANCELLED, ENDED_BY_IT)
    assert "kubectl delete job train -n nlp-jobs" in workload.reason["next_step"]
    assert (attempt.end_reason, workload.attempts.count()) == ("cancelled", 1)


def test_an_attempt_that_came_before_its_job_was_known_to_have_ended_hides_no_eviction(
    place: Place, bound: BoundNamespace
) -> None:
    hand = Hand(place.cluster)
    discover(hand, job())
    workload = Workload.objects.get()
    (device, *_) = devices_of(place.cluster, "n1")
    attempt = admit(place.team, place.owner, place.pool, place.cluster, [device], workload=workload)
    said = report(attempt, ReportedPhase.FAILED, 1, reason="drained", message=EVICTED)
    hand.say(Observed(reports=(said,)))
    workload.refresh_from_db()
    assert workload.status == Status.PENDING
    workload = refuse(place, workload, code="job-ended")
    assert (workload.status, workload.reason_code) == (Status.CANCELLED, "job-ended")
    assert workload.reason["message"] == ENDED_BY_IT


def test_a_workload_that_was_cancelled_is_not_adopted_again(place: Place, bound: BoundNamespace) -> None:
    hand = Hand(place.cluster)
    slug = discover(hand, job())["u1"].workload
    actions.cancel(by=Actor.system("test"), workload=Workload.objects.get())
    assert discover(hand, job())["u1"].workload == slug
    assert Workload.objects.count() == 1


def test_an_assignment_says_which_job_it_is_and_in_which_namespace(
    place: Place, bound: BoundNamespace
) -> None:
    discover(Hand(place.cluster), job())
    adopted, devices = Workload.objects.get(), devices_of(place.cluster, "n1")
    ours = admit(place.team, bound.owner, place.pool, place.cluster, devices[:1], workload=adopted)
    own = admit(place.team, place.owner, place.pool, place.cluster, devices[1:2])
    other = make_team(Team.objects.get(parent=None), "Vision")
    theirs = admit(other, place.owner, place.pool, place.cluster, devices[2:3])
    (message,) = desired.full_set(place.cluster.pk, new_id())
    told = {assignment.attempt: assignment for assignment in message.assignments}
    job_of = told[ours.pk].adopted
    assert job_of is not None
    assert (job_of.namespace, job_of.name, job_of.uid) == ("nlp-jobs", "train", "u1")
    assert [told[each.pk].namespace for each in (ours, own, theirs)] == ["nlp-jobs", "nlp-jobs", ""]
    assert told[own.pk].adopted is None


def test_who_was_placed_before_the_binding_stays_where_he_is(place: Place) -> None:
    before = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    spaces.bind_namespace(by=Actor.system("test"), cluster=place.cluster, team=place.team, namespace="late")
    elsewhere = make_cluster("west")
    assert not BoundNamespace.objects.filter(cluster=elsewhere).exists()
    (message,) = desired.full_set(place.cluster.pk, new_id())
    assert isinstance(message, Desired)
    assert [(each.attempt, each.namespace) for each in message.assignments] == [(before.pk, "")]


# Whose a Job is


def test_whom_a_job_names_may_steer_it_where_they_may_submit_to_the_team(
    place: Place, bound: BoundNamespace
) -> None:
    viewer, other = member(place.team, Role.VIEWER, "vera"), member(place.team, Role.RESEARCHER, "rita")
    discover(Hand(place.cluster), job("u1", who="ada"), job("u2", who="vera"), job("u3", who="nobody"))
    ada, vera, nobody = (AdoptedJob.objects.get(uid=uid).workload for uid in ("u1", "u2", "u3"))
    assert AdoptedJob.objects.filter(named_owner=place.owner).get().workload == ada
    for user, workload in ((other, ada), (viewer, vera), (place.owner, nobody)):
        with pytest.raises(NotAllowed, match="whom its Job names in the annotation"):
            actions.cancel(by=actor(user), workload=workload)
    actions.cancel(by=actor(place.owner), workload=ada)
    assert Workload.objects.get(pk=ada.pk).status == Status.CANCELLED
    assert ada.owner == bound.owner


def test_a_name_that_is_written_later_counts_from_then_on(place: Place, bound: BoundNamespace) -> None:
    hand = Hand(place.cluster)
    discover(hand, job())
    workload = Workload.objects.get()
    assert not may_control(actor(place.owner), workload)
    discover(hand, job(who="ada"))
    assert may_control(actor(place.owner), Workload.objects.get())
    discover(hand, job(who="vera"))
    assert not may_control(actor(place.owner), Workload.objects.get())
    assert Workload.objects.get() == workload


def test_to_be_named_is_worth_nothing_without_a_role_in_the_team(place: Place, bound: BoundNamespace) -> None:
    discover(Hand(place.cluster), job(who="ada"))
    Binding.objects.filter(user=place.owner).update(role=Role.VIEWER)
    owner = get_user_model().objects.get(username="ada")
    assert not may_control(actor(owner), Workload.objects.get())


def test_people_are_looked_up_in_one_query(
    place: Place, bound: BoundNamespace, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    hand = Hand(place.cluster)
    many = [job(f"u{number:03}", name=f"j{number}", who="ada") for number in range(40)]
    discover(hand, *many)
    with django_assert_max_num_queries(16):
        discover(hand, *many)


WORDS = 'Pod 0: persistentvolumeclaim "data" not found.'


def refuse(place: Place, workload: Workload, *, code: str = "unschedulable") -> Workload:
    """Have the cluster refuse the workload once, by a report of its agent; return it as it is then."""
    Workload.objects.filter(pk=workload.pk).update(backoff_until=None)
    (device, *_) = devices_of(place.cluster, "n1")
    attempt = admit(place.team, place.owner, place.pool, place.cluster, [device], workload=workload)
    said = report(attempt, ReportedPhase.FAILED, 1, created_at=None, reason=code, message=WORDS)
    answer = Hand(place.cluster).say(Observed(reports=(said,)))
    assert not [each for each in answer.messages if isinstance(each, Error)], answer
    workload.refresh_from_db()
    return workload


def test_a_job_that_its_cluster_refuses_three_times_is_held_and_its_people_told_what_to_do(
    place: Place, bound: BoundNamespace
) -> None:
    hand = Hand(place.cluster)
    discover(hand, job(revision="r1"))
    workload = Workload.objects.get()
    for _ in range(2):
        assert not refuse(place, workload).held
        assert workload.backoff_until is not None
    assert refuse(place, workload).held
    assert workload.reason["next_step"] == "Mend what the message names."
    steps = {code: adoption.advised(of_refusal(code, "No.")).next_step for code in REFUSAL_STEPS}
    assert steps["admission-denied"].startswith(
        "Change what the message names and create the Job again, or ask"
    )
    assert not any("submit" in step for step in steps.values())
    note = discover(Hand(place.cluster), job(revision="r1"))["u1"].note
    assert "It is on hold, for the cluster refused it 3 times in a row: " in note
    assert 'persistentvolumeclaim "data" not found' in note
    assert f"or chamber release {workload.slug}, has it tried again: " in note
    assert "kubectl annotate --overwrite -n nlp-jobs job/train chamber.internal/retry=" in note
    assert discover(Hand(place.cluster), job(revision="r2"))["u1"].note == ""
    workload.refresh_from_db()
    assert (workload.held, workload.backoff_until, workload.reason) == (False, None, {})
    assert "Its Job nlp-jobs/train was changed" in workload.events.latest("sequence").message
    assert [refuse(place, workload).held for _ in range(3)] == [False, False, True], "counted anew"
    assert any("on hold after 3 refusals in a row" in event.message for event in workload.events.all())
    assert not any("on hold after 4 refusals" in event.message for event in workload.events.all())
    assert "refused it 3 times in a row" in discover(Hand(place.cluster), job(revision="r2"))["u1"].note


def test_what_passes_by_itself_is_tried_on(place: Place, bound: BoundNamespace) -> None:
    hand = Hand(place.cluster)
    discover(hand, job())
    workload = Workload.objects.get()
    for _ in range(4):
        assert not refuse(place, workload, code="cluster-busy").held


def test_a_change_of_a_job_that_was_not_refused_and_an_older_agent_change_nothing(
    place: Place, bound: BoundNamespace
) -> None:
    hand = Hand(place.cluster)
    first = discover(hand, job())
    for revision in ("r1", "", "r2"):
        assert discover(hand, job(revision=revision)) == first
    assert Workload.objects.get().events.count() == 1
    assert AdoptedJob.objects.get().revision == "r2"


def test_the_images_of_all_its_containers_have_to_be_allowed(place: Place, bound: BoundNamespace) -> None:
    hand, by = Hand(place.cluster), Actor.system("test")
    set_rules(by=by, team=place.team, version=0, rules=TeamRules(images=("registry.example/*",)))
    mine = "registry.example/train:1"
    assert discover(hand, job(images=(mine, "registry.example/side:1")))["u1"].workload
    verdict = discover(hand, job("u2", name="b", images=(mine, "evil.example/side:1")))["u2"]
    assert verdict.refused == (
        "The rules of NLP allow the images registry.example/*; evil.example/side:1 is none of them."
    )
    assert (
        "train:1" in discover(hand, job("u3", name="c", image="train:1", images=("train:1",)))["u3"].refused
    )


def test_the_digest_of_a_job_is_what_it_was_before_agents_told_more() -> None:
    asked = job(
        who="ada", finished=True, revision="r1", secrets=("db",), config_maps=("c",), images=("side:1",)
    )
    later = {"finished", "who", "revision", "gpu_types", "priority_class", "secrets", "config_maps", "images"}
    said = asked.model_dump(mode="json", exclude=later)
    text = json.dumps(said, sort_keys=True).encode()
    assert adoption.digest(asked) == hashlib.sha256(text).hexdigest()
    others = {
        adoption.digest(job(**more)) for more in ({"gpu_types": ("H100",)}, {"priority_class": "x"}, {})
    }
    assert len(others) == 3


def test_types_of_gpus_that_a_job_requires_are_planned_as_far_as_its_cluster_has_them(
    place: Place, bound: BoundNamespace
) -> None:
    hand = Hand(place.cluster)
    assert discover(hand, job(gpu_types=("H200", "H100")))["u1"].workload
    assert Workload.objects.get().gpu_types == ["H100"]
    verdict = discover(hand, job("u2", gpu_types=("H200", "B200")))["u2"]
    assert "H200" in verdict.refused


def test_a_job_that_asks_for_a_mig_slice_has_one_a_pod_of_whatever_type_its_profile_has(
    place: Place, bound: BoundNamespace
) -> None:
    types = ("mig-1g.10gb", "NVIDIA-H100-MIG-1g.10gb", "NVIDIA-H100-MIG-1g.10gb-SHARED", "mig-11g.10gb")
    for number, gpu_type in enumerate(types):
        cut = make_node(place.cluster, f"m{number}", gpus=4, pool=place.pool, gpu_type=gpu_type)
        cut.devices.update(slicing="mig", share_milli=143)
    hand = Hand(place.cluster)
    assert discover(hand, job(pods=4, gpu_types=("mig-1g.10gb",)))["u1"].refused == ""
    workload = Workload.objects.get()
    assert (workload.pods, workload.gpu_milli) == (4, 1000)
    assert workload.gpu_types == ["NVIDIA-H100-MIG-1g.10gb", "mig-1g.10gb"]
    assert workload.slices is not None
    verdict = discover(hand, job("u2", gpu_types=("mig-2g.20gb",)))["u2"]
    assert "mig-2g.20gb" in verdict.refused


@pytest.mark.parametrize(
    ("asked", "priority", "words"),
    [
        ({"priority_class": "training"}, 60, ""),
        ({"priority_class": "training", "priority": "low"}, 25, ""),
        ({"priority_class": "urgent"}, 75, "Its priority 90 was lowered to 75"),
        (
            {"priority_class": "other"},
            50,
            "Its PriorityClass other is that of no priority tier, so it has the default priority 50.",
        ),
        ({"priority_class": "guaranteed"}, 100, "lowered to 100"),
        ({}, 50, ""),
    ],
)
def test_a_priority_class_has_the_priority_of_its_tier_and_is_capped_like_a_label(
    place: Place, bound: BoundNamespace, asked: dict[str, str], priority: int, words: str
) -> None:
    for name, number in {"training": 60, "urgent": 90, "guaranteed": 500}.items():
        PriorityTier.objects.create(slug=f"for-{name}", name=name, priority=number, priority_classes=[name])
    verdict = discover(Hand(place.cluster), job(**asked))["u1"]
    assert Workload.objects.get().priority == priority
    assert words in verdict.note
    assert bool(verdict.note) is bool(words)


def test_a_tier_that_researchers_may_not_use_lowers_a_job(place: Place, bound: BoundNamespace) -> None:
    PriorityTier.objects.filter(slug="high").update(least_role=Role.LEAD)
    verdict = discover(Hand(place.cluster), job(priority="high"))["u1"]
    assert Workload.objects.get().priority == 74
    assert "Its priority 75 was lowered to 74" in verdict.note
