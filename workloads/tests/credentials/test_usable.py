"""Who loses a credential, a role or an account: what waits is told so instead of starting, and starts once it may."""

from collections.abc import Callable
from typing import Any

import pytest

from chamber.errors import Conflict
from chamber.models import User
from teams.models import Binding, Pool, Role, Team
from teams.tests.factories import actor, bind, member, set_rules
from workloads import actions
from workloads.credentials import usable
from workloads.credentials.actions import create_credential, delete_credential
from workloads.models import Credential, CredentialKind, EventKind, Status, Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit
from workloads.tasks import hold_back_credentials
from workloads.tests.credentials.conftest import CONTENTS

Change = Callable[[User, Team], None]


@pytest.fixture
def lead(team: Team) -> User:
    return member(team, Role.LEAD, "lena")


def make(by: User, name: str, kind: str = "token", team: Team | None = None, **content: Any) -> Credential:
    given = content or CONTENTS[kind]
    return create_credential(by=actor(by), name=name, kind=CredentialKind(kind), content=given, team=team)


def waiting(owner: User, *names: str) -> Workload:
    body = {"name": "bert", "team": "nlp", "image": "i:1", "credentials": list(names)}
    return submit(by=actor(owner), requests=[SubmissionRequest.parse(body)])[0]


def deleted(owner: User, _: Team) -> None:
    delete_credential(by=actor(owner), credential=Credential.objects.get(name="hf"))


def disabled(owner: User, _: Team) -> None:
    User.objects.filter(pk=owner.pk).update(is_active=False)


def role_taken(owner: User, _: Team) -> None:
    Binding.objects.filter(user=owner).delete()


def role_lowered(owner: User, _: Team) -> None:
    Binding.objects.filter(user=owner).update(role=Role.VIEWER)


def handed_over(owner: User, team: Team) -> None:
    mate = member(team, Role.RESEARCHER, "grace")
    actions.hand_over(by=actor(owner), ids=list(Workload.objects.values_list("pk", flat=True)), to=mate)


def moved(_: User, team: Team) -> None:
    Credential.objects.filter(name="data").update(team=Team.objects.get(slug="vision"))


LOSSES: dict[str, tuple[Change, str]] = {
    "deleted": (deleted, "The credential hf, which it names, was deleted."),
    "disabled": (disabled, "The account of its owner ada is disabled"),
    "role taken": (role_taken, "Its owner ada may not submit to NLP any more, nor use hf there."),
    "role lowered": (role_lowered, "Its owner ada may not submit to NLP any more, nor use hf there."),
    "handed over": (handed_over, "The credential hf, which it names, is not grace's, who owns it now."),
    "moved": (moved, "nlp/data is of Vision, which NLP is not below any more."),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_waits_has_the_reason_instead_of_starting(
    owner: User, lead: User, team: Team, other_team: Team, loss: str
) -> None:
    make(owner, "hf")
    make(lead, "data", "s3", team=team)
    workload, other = waiting(owner, "hf", "nlp/data"), waiting(owner)
    assert hold_back_credentials() == 0
    change, told = LOSSES[loss]
    change(owner, team)
    assert hold_back_credentials() == 1
    workload.refresh_from_db()
    assert (workload.status, workload.held) == (Status.PENDING, True)
    assert workload.reason["code"] == "credential-unusable"
    assert told in workload.reason["message"]
    event = workload.events.order_by("sequence").last()
    assert event is not None
    assert (event.kind, told in event.message) == (EventKind.HELD, True)
    assert hold_back_credentials() == 0, "it is told once"
    other.refresh_from_db()
    assert not other.held


def test_it_goes_on_by_itself_once_it_may(owner: User, team: Team) -> None:
    make(owner, "hf")
    workload = waiting(owner, "hf")
    Binding.objects.filter(user=owner).delete()
    hold_back_credentials()
    bind(owner, team, Role.RESEARCHER)
    assert hold_back_credentials() == 1
    workload.refresh_from_db()
    assert (workload.held, workload.reason) == (False, {})


def test_what_somebody_holds_stays_held(owner: User, team: Team) -> None:
    make(owner, "hf")
    workload = waiting(owner, "hf")
    actions.hold(by=actor(owner), workload=workload)
    Binding.objects.filter(user=owner).delete()
    assert hold_back_credentials() == 0
    bind(owner, team, Role.RESEARCHER)
    assert hold_back_credentials() == 0
    workload.refresh_from_db()
    assert workload.held


def test_a_role_by_a_group_counts(owner: User, team: Team) -> None:
    from django.contrib.auth.models import Group

    make(owner, "hf")
    workload = waiting(owner, "hf")
    group = Group.objects.create(name="crew")
    group.user_set.add(owner)
    Binding.objects.filter(user=owner).delete()
    Binding.objects.create(group=group, team=team, role=Role.RESEARCHER)
    assert usable.problems([workload.pk]) == {}


def test_rules_that_name_a_secret_no_more_hold_it_back(owner: User, org: Team) -> None:
    make(owner, "wandb", "secret")
    set_rules(org, cluster_secrets=["*"])
    workload = waiting(owner, "wandb")
    set_rules(org)
    assert "allow none (cluster_secrets)" in usable.problems([workload.pk])[workload.pk]


def test_requeueing_is_refused_with_the_sentence_and_several_leave_it_out(owner: User, pool: Pool) -> None:
    make(owner, "hf")
    workload, other = waiting(owner, "hf"), waiting(owner)
    for each in (workload, other):
        actions.cancel(by=actor(owner), workload=each)
        each.refresh_from_db()
    delete_credential(by=actor(owner), credential=Credential.objects.get())
    with pytest.raises(
        Conflict, match=r"cannot run again as it is\. The credential hf, which it names, was deleted"
    ):
        actions.requeue(by=actor(owner), workload=workload)
    assert actions.act_on_many(by=actor(owner), act="requeue", workloads=[workload, other]) == {other.pk}


def test_many_that_wait_for_the_same_are_looked_at_once(
    owner: User, django_assert_max_num_queries: Any
) -> None:
    make(owner, "hf")
    for _ in range(8):
        waiting(owner, "hf")
    with django_assert_max_num_queries(10):
        assert hold_back_credentials() == 0
    delete_credential(by=actor(owner), credential=Credential.objects.get())
    with django_assert_max_num_queries(20):
        assert hold_back_credentials() == 8
    assert Workload.objects.filter(held=True).count() == 8
