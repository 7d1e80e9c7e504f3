"""The page of one workload: status, reason, attempts, events, devices, preemptions, and what may be done."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from agentlink.tests.factories import make_cluster, make_node, place
from chamber.models import User
from chamber.notes import Note, NoteKind
from teams.models import Pool, Role, Team
from teams.tests.factories import member
from workloads import known, lifecycle, noting
from workloads.lifecycle import Displacement
from workloads.models import Attempt, Dependency, Workload
from workloads.noting import HeardNote, SaidNotes
from workloads.tests.factories import SCHEDULER, admit, finish, make_workload, preempt, start


@pytest.fixture
def signed_in(client: Client, owner: User) -> Client:
    client.force_login(owner)
    return client


@pytest.fixture
def workload(team: Team, owner: User) -> Workload:
    return make_workload(team, owner, name="bert", slug="bert-1")


def text(client: Client, workload: Workload) -> str:
    response = client.get(f"/workloads/{workload.slug}/")
    assert response.status_code == 200
    return response.content.decode()


def test_waiting_it_asks_the_scheduler_why(signed_in: Client, workload: Workload) -> None:
    page = text(signed_in, workload)
    assert f'hx-get="/scheduling/explain/{workload.slug}/"' in page
    assert f'data-live="workload:{workload.pk}"' in page
    assert "None yet: an attempt begins when it gets GPUs." in page


def test_running_it_shows_devices_and_to_whom_they_are_charged(
    signed_in: Client, workload: Workload, pool: Pool, team: Team
) -> None:
    allocation = [{"team": str(team.pk), "milli": 500}, {"team": None, "milli": 500}]
    attempt = start(workload, pool, allocation=allocation)
    place(attempt, make_node(make_cluster(), "node-7", pool=pool), 3)
    page = text(signed_in, workload)
    assert "node-7" in page
    assert "GPU 3: pod 0" in page
    assert "0.5 GPUs of the guarantee of NLP, 0.5 GPUs beyond every guarantee (burst)" in page
    assert f'hx-get="/scheduling/explain/{workload.slug}/"' in page  # says where its cluster is silent
    assert "skeleton" not in page[page.index('id="why"') : page.index("GPU 3: pod 0")]


def test_on_slices_it_says_how_many_of_which_type_and_their_share(
    signed_in: Client, team: Team, owner: User, pool: Pool
) -> None:
    node = make_node(make_cluster(), "n0", gpus=4, pool=pool, gpu_type="mig-1g.10gb")
    node.devices.update(slicing="mig", share_milli=143)
    known.forget()
    workload = make_workload(team, owner, pods=4, gpu_types=["mig-1g.10gb"])
    place(admit(workload, pool), node, 3, share=143)
    page = signed_in.get(f"/workloads/{workload.slug}/").content.decode()
    assert "4 slices of mig-1g.10gb (0.572 GPUs), one a pod" in page
    assert 'title="Slice 3 (mig-1g.10gb): pod 0, 0.143 GPUs, Held: its pods may exist"' in page
    listed = signed_in.get("/workloads/").content.decode()
    assert '0.572<span class="sub">4 slices</span>' in listed


def test_back_in_the_queue_it_is_pending_since_its_return(
    signed_in: Client, workload: Workload, pool: Pool
) -> None:
    assert signed_in.get(f"/workloads/{workload.slug}/").context["pending_since"] == workload.submitted_at
    start(workload, pool)
    workload.refresh_from_db()
    preempt(workload)
    returned = workload.events.filter(data__status="pending").latest("sequence").at
    assert returned > workload.submitted_at
    assert signed_in.get(f"/workloads/{workload.slug}/").context["pending_since"] == returned


def test_a_reserved_one_is_never_preempted(signed_in: Client, team: Team, owner: User) -> None:
    assert "never: it is reserved" in text(signed_in, make_workload(team, owner, priority=100))
    assert "Back to the queue" in text(signed_in, make_workload(team, owner, priority=99))


def test_ended_it_shows_the_stored_reason(signed_in: Client, workload: Workload, pool: Pool) -> None:
    finish(
        start(workload, pool), exit_code=137, reason_code="out-of-memory", message="It used more than 64 GiB."
    )
    page = text(signed_in, workload)
    assert "It used more than 64 GiB." in page
    assert "Ask for more memory per pod" in page
    assert "exit code 137" in page
    assert "Requeue" in page


def test_displaced_it_says_why_until_its_pods_are_gone_and_then_with_the_attempt(
    signed_in: Client, workload: Workload, pool: Pool
) -> None:
    attempt = start(workload, pool)
    cause = "Node n1 was lost."
    for gone, card in ((False, True), (True, False)):
        one = Displacement(attempt.pk, "node-lost", cause, timezone.now(), gone=gone)
        with transaction.atomic():
            lifecycle.displace_many([one], by=SCHEDULER, at=timezone.now())
        page = text(signed_in, workload)
        waits = f"{cause} It returns to the queue, at no charge, once its pods are known to be gone."
        assert (f'<p class="reason-sentence">{waits}</p>' in page) is card
        assert f'<span class="sub">{cause}</span>' in page
        explained = signed_in.get(f"/api/v1/workloads/{workload.slug}/explain/").json()
        assert (explained["reason"]["code"] == "node-lost") is card
        (told,) = signed_in.get(f"/api/v1/workloads/{workload.slug}/attempts/").json()["results"]
        assert (told["reason"], told["end_reason"]) == ("node-lost", "displaced")


def test_a_preemption_is_told_on_both_pages(
    signed_in: Client, workload: Workload, team: Team, owner: User, pool: Pool
) -> None:
    winner = make_workload(team, owner, name="release", slug="release-1", priority=100)
    start(workload, pool)
    preempt(workload, by_workload=winner, rule="reclaim", level="Acme")
    victim_page, winner_page = text(signed_in, workload), text(signed_in, winner)
    assert '<a href="/workloads/release-1/">release</a> of NLP with priority 100' in victim_page
    assert "rule: reclaim; level: Acme" in victim_page
    assert "1 of 20 requeues" in victim_page
    assert '<a href="/workloads/bert-1/">bert</a> of NLP with priority 50, 1 GPU' in winner_page


def test_of_a_foreign_workload_only_team_and_priority_are_told(
    signed_in: Client, workload: Workload, other_team: Team, pool: Pool
) -> None:
    stranger = member(other_team, Role.RESEARCHER)
    winner = make_workload(other_team, stranger, name="secret", slug="secret-1", priority=100)
    start(workload, pool)
    preempt(workload, by_workload=winner)
    page = text(signed_in, workload)
    assert "a workload of Vision with priority 100" in page
    assert "secret" not in page


def test_what_others_of_the_team_may_not_do_they_are_not_offered(workload: Workload, team: Team) -> None:
    mate, lead = Client(), Client()
    mate.force_login(member(team, Role.RESEARCHER))
    lead.force_login(member(team, Role.LEAD))
    assert "/workloads/bert-1/cancel/" not in text(mate, workload)
    assert "/workloads/bert-1/cancel/" in text(lead, workload)


def test_an_outsider_gets_not_found(workload: Workload, other_team: Team, client: Client) -> None:
    client.force_login(member(other_team, Role.ADMIN))
    assert client.get("/workloads/bert-1/").status_code == 404
    assert client.post("/workloads/bert-1/cancel/").status_code == 404


def test_a_team_mate_is_refused_with_a_sentence(workload: Workload, team: Team, client: Client) -> None:
    client.force_login(member(team, Role.VIEWER))
    response = client.post("/workloads/bert-1/cancel/")
    assert response.status_code == 403
    assert b"bert-1 belongs to ada" in response.content


ACTS = {
    "cancel": "is cancelled",
    "hold": "is held",
    "release": "only what is held",
    "requeue": "only what has ended",
}


@pytest.mark.parametrize(("act", "sentence"), ACTS.items())
def test_an_act_returns_to_the_page_with_what_came_of_it(
    signed_in: Client, workload: Workload, act: str, sentence: str
) -> None:
    assert signed_in.get(f"/workloads/bert-1/{act}/").status_code == 405
    response = signed_in.post(f"/workloads/bert-1/{act}/", follow=True)
    assert response.redirect_chain == [("/workloads/bert-1/", 302)]
    assert sentence in response.content.decode()


def test_all_that_was_asked_for_is_shown_and_written_again(
    signed_in: Client, team: Team, owner: User, workload: Workload
) -> None:
    asked = make_workload(
        team,
        owner,
        node_selector={"rack": "r1"},
        tolerations=["spot:NoSchedule"],
        topology_required="zone",
        grace_seconds=300,
    )
    Dependency.objects.create(workload=asked, needs=workload)
    page = text(signed_in, asked)
    for words in (
        "rack=r1",
        "spot:NoSchedule",
        "all pods in one zone",
        "<dt>Grace period</dt><dd>5 min</dd>",
    ):
        assert words in page, words
    assert f"depends_on:\n- {workload.slug}\n" in page
    assert signed_in.get(f"/api/v1/workloads/{asked.slug}/").json()["depends_on"] == [workload.slug]


def test_dependencies_are_linked_both_ways(
    signed_in: Client, workload: Workload, team: Team, owner: User
) -> None:
    after = make_workload(team, owner, name="eval", slug="eval-1")
    Dependency.objects.create(workload=after, needs=workload)
    assert '<a href="/workloads/eval-1/">eval</a>' in text(signed_in, workload)
    assert '<a href="/workloads/bert-1/">bert</a> (Pending)' in text(signed_in, after)


def test_a_live_section_gets_only_itself(signed_in: Client, workload: Workload) -> None:
    part = signed_in.get("/workloads/bert-1/", headers={"X-Chamber-Fragment": "1"}).content.decode()
    assert part.startswith('<div id="workload"')


def test_a_long_life_takes_as_few_queries_as_a_short_one(
    signed_in: Client, workload: Workload, owner: User, pool: Pool, django_assert_max_num_queries: Any
) -> None:
    cluster = make_cluster()
    for number in range(12):
        attempt = admit(workload, pool)
        place(attempt, make_node(cluster, f"n{number}", pool=pool), 0)
        preempt(workload, by_workload=make_workload(workload.team, owner, priority=100))
    with django_assert_max_num_queries(24):
        page = text(signed_in, workload)
    assert page.count('data-key="by-') == 12


def say(attempt: Attempt, at: datetime, *, step: int | None = None, millionths: int | None = None) -> None:
    notes = [] if step is None else [Note(NoteKind.CHECKPOINT, step=step)]
    notes += [] if millionths is None else [Note(NoteKind.PROGRESS, millionths=millionths)]
    notes.append(Note(NoteKind.LINK, name="wandb", url="https://wandb.example/?a=1&b=2"))
    with transaction.atomic():
        said = SaidNotes([HeardNote(note, at) for note in notes])
        noting.take_notes({attempt.pk: said}, by=SCHEDULER, at=timezone.now())


def test_what_it_says_of_itself_is_shown_with_its_end_and_what_it_would_lose(
    signed_in: Client, team: Team, owner: User, pool: Pool
) -> None:
    now = timezone.now()
    began = now - timedelta(hours=2)
    workload = make_workload(team, owner, submitted_at=began)
    attempt = start(workload, pool, at=began)
    assert "Checkpoints and progress" not in text(signed_in, workload)
    say(attempt, now - timedelta(minutes=70), millionths=100_000)
    say(attempt, now - timedelta(minutes=10), step=1200, millionths=400_000)
    page = text(signed_in, workload)
    panel = page[page.index('id="notes"') : page.index('id="attempts-title"')]
    assert '<progress max="100" value="40.00" aria-label="Progress">40 %</progress>' in panel
    assert "step 1200" in panel
    assert (
        "in 1 h" in panel[panel.index("Ends at this pace") :]
    )  # 30 % an hour: the last 60 % in 2 h from then
    assert "10 min" in panel[panel.index("Lost if it stops now") :]
    link = '<a href="https://wandb.example/?a=1&amp;b=2" rel="noopener noreferrer nofollow">wandb</a>'
    assert link in panel
    assert "It loses 10 min" in page
    assert "of work, since its checkpoint at step 1200." in page
    (told,) = signed_in.get(f"/api/v1/workloads/{workload.slug}/attempts/").json()["results"]
    notes = told["notes"]
    assert (notes["step"], notes["progress"], notes["checkpoints"]) == (1200, 0.4, 1)
    ends = datetime.fromisoformat(notes["ends_at"])
    assert abs(ends - (now + timedelta(minutes=110))) < timedelta(seconds=2)
    assert datetime.fromisoformat(notes["unsaved_since"]) == now - timedelta(minutes=10)
    finish(attempt)
    page = text(signed_in, workload)
    assert "Lost if it stops now" not in page
    assert "Ends at this pace" not in page


def test_where_its_output_is_read_and_holds_nothing_it_says_what_to_write(
    signed_in: Client, team: Team, owner: User
) -> None:
    reading = make_workload(team, owner, read_notes=True)
    assert "None yet: its output is read for lines such as" in text(signed_in, reading)
