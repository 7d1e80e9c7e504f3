"""The effect of forms before they are saved: a panel, or a page without scripts; nothing is written."""

from typing import Any
from unittest.mock import Mock

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agentlink.models import Device
from chamber.models import User
from scheduling.cycle.cycle import run_cycle
from scheduling.reading import recent
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from scheduling.whatif import asking
from scheduling.whatif.desk import TooMany
from teams.models import AuditEvent, Pool, Role, Share
from teams.tests.factories import bind, make_team, member, set_share
from workloads.models import Workload
from workloads.tests.factories import make_workload

ROW: dict[str, Any] = {"version": 1, "share_version": 1, "bursting_priority": 1}
POLICY: dict[str, Any] = {
    "version": 1,
    "name": "Main",
    "slug": "main",
    "order": 0,
    "queueing": "backfill",
    "elastic_preemption": "priority",
    "placement": "binpack",
    "fairness": "entitlement",
    "sharing": "fractions",
    "usage_half_life_seconds": "7d",
    "min_runtime_seconds": "0s",
}


def row_url(slug: str) -> str:
    return reverse("scheduling:what-if-team", args=[slug]) + "?pool=main"


def ask(client: Client, user: User, url: str, *, status: int = 200, page: bool = False, **values: Any) -> str:
    """Return the panel, or the page; what is stored must be as before."""
    recent.forget()
    asking.forget()
    client.force_login(user)
    before = stored()
    answer = client.post(url, values, headers={} if page else {"HX-Request": "true"})
    assert answer.status_code == status, answer.content
    assert stored() == before
    return " ".join(answer.content.decode().split())


def stored() -> tuple[Any, ...]:
    return (
        list(Share.objects.values_list("team", "reservation_milli", "version")),
        list(Pool.objects.values_list("policy", "version")),
        list(Workload.objects.values_list("pk", "status", "version")),
        AuditEvent.objects.count(),
    )


def busy(acme: Acme) -> None:
    """Research's elastic work has all 12 GPUs; Production has lost its reservation, so four of its own wait."""
    running = [make_workload(acme.research, acme.owner, slug=f"burst-{n}", priority=70) for n in range(12)]
    run_cycle()
    run_pods(running)
    for number in range(4):
        make_workload(acme.production, acme.outsider, slug=f"wanted-{number}", priority=100)
    set_share(acme.production, acme.pool, gpus=0)
    run_cycle()


def test_a_larger_reservation_says_who_starts_and_who_is_preempted_for_it(acme: Acme, client: Client) -> None:
    busy(acme)

    text = ask(client, acme.admin, row_url("production"), **ROW, reservation=2)

    assert "Starts: 2 workloads of Production, 2 GPUs" in text
    assert "Preempted: 2 workloads of Research, 2 GPUs" in text
    assert "which is reserved and inside its guarantee" in text
    assert "It waits again." in text


def test_entitlements_are_shown_before_and_after(acme: Acme, client: Client) -> None:
    busy(acme)

    text = ask(client, acme.admin, row_url("production"), **ROW, reservation=3)

    row = text[text.index('<th scope="row">Production</th>') :]
    cell = row[row.index('data-label="Entitlement"') :]
    assert cell.index('<span class="muted">0</span>') < cell.index("<b>3</b>") < cell.index("</td>")


def test_without_scripts_it_is_a_page_that_keeps_what_was_typed_and_saves_it(
    acme: Acme, client: Client
) -> None:
    busy(acme)

    text = ask(client, acme.admin, row_url("production"), page=True, **ROW, reservation=2)

    assert "<title>Effect: Production in Main · Chamber</title>" in text
    assert '<input type="hidden" name="reservation" value="2">' in text
    save = reverse("teams:edit", args=["production"])
    assert f'action="{save}?pool=main"' in text
    assert client.post(f"{save}?pool=main", {**ROW, "reservation": 2}).status_code == 302


def test_what_changes_nothing_says_so(acme: Acme, client: Client) -> None:
    assert "Nothing changes for anybody" in ask(
        client, acme.admin, row_url("production"), **ROW, reservation=4
    )


def test_a_change_without_an_effect_on_workloads_shows_figures_only(acme: Acme, client: Client) -> None:
    text = ask(client, acme.admin, row_url("production"), **ROW, reservation=3)

    assert "Nobody starts, waits longer or is preempted by it" in text
    assert "Effect on teams" in text
    assert "Effect on workloads" not in text


def test_guarantees_above_the_capacity_are_a_warning_with_whose_they_are(acme: Acme, client: Client) -> None:
    text = ask(client, acme.admin, row_url("production"), **ROW, reservation=9)

    assert "The pool Main guarantees 17 GPUs, but has 12." in text
    assert "Production 9, Research 8" in text or "Research 8, Production 9" in text
    assert "of 12 in use" not in text


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"reservation": "-1"}, "Reservation is &#x27;-1&#x27;; at least 0 is allowed."),
        ({"reservation": ""}, "Reservation is missing."),
        ({"reservation": "2", "share_version": ""}, "Share version is missing."),
        ({"reservation": "2", "bursting_priority": "11"}, "from 1 to 10, not 11."),
        ({"reservation": "2", "pool_maximum": "1"}, "is above its maximum of 1 GPU"),
        ({"reservation": "2", "share_version": "9"}, "you edited version 9"),
    ],
)
def test_a_form_that_cannot_be_saved_says_why(
    acme: Acme, client: Client, values: dict[str, Any], sentence: str
) -> None:
    text = ask(client, acme.admin, row_url("production"), **{**ROW, **values})

    assert "This cannot be saved" in text
    assert sentence in text


def test_a_draft_of_all_rows_is_one_effect(acme: Acme, client: Client) -> None:
    busy(acme)
    values: dict[str, Any] = {}
    for team, gpus, version in ((acme.root, 0, 0), (acme.research, 4, 1), (acme.production, 3, 1)):
        own = {"version": 1, "share_version": version, "reservation": gpus, "bursting_priority": 1}
        values |= {f"{team.pk.hex}-{name}": value for name, value in own.items()}

    text = ask(client, acme.admin, reverse("scheduling:what-if-teams") + "?pool=main", **values)

    assert "Starts: 3 workloads of Production, 3 GPUs" in text
    assert '<th scope="row">Research</th>' in text


def test_a_wrong_row_of_a_draft_is_named_by_its_team(acme: Acme, client: Client) -> None:
    values = {f"{acme.research.pk.hex}-{name}": value for name, value in {**ROW, "reservation": "x"}.items()}

    text = ask(client, acme.admin, reverse("scheduling:what-if-teams") + "?pool=main", **values)

    assert "Research: Reservation is &#x27;x&#x27;; it must be a number." in text


def test_a_policy_tells_whom_it_spares(acme: Acme, client: Client) -> None:
    running = [make_workload(acme.research, acme.owner, priority=10) for _ in range(12)]
    run_cycle()
    run_pods(running)
    make_workload(acme.production, acme.outsider, slug="important", priority=60)
    url = reverse("scheduling:what-if-pool", args=["main"])

    text = ask(client, acme.admin, url, **{**POLICY, "elastic_preemption": "never"})

    assert "Not preempted: 1 workload of Research" in text
    assert "Would not start: 1 workload of Production" in text
    assert "Nothing changes for anybody" in ask(client, acme.admin, url, **POLICY)


def test_a_drain_says_who_leaves_and_who_is_waited_for_and_has_nothing_to_save(
    acme: Acme, client: Client
) -> None:
    Device.objects.filter(node__name="n3").update(slicing="mig", share_milli=143, gpu_type="mig-1g.10gb")
    workloads = [
        make_workload(acme.research, acme.owner, slug="burst"),
        make_workload(acme.research, acme.owner, slug="firm", priority=100),
    ]
    run_cycle()
    run_pods(workloads)
    nodes = [f"east/{node.name}" for node in acme.pool.nodes.all()]
    shown = ask(client, acme.admin, reverse("scheduling:what-if-drain"), page=True, node=nodes)
    none = ask(client, acme.admin, reverse("scheduling:what-if-drain"))

    assert "Is waited for: 1 workload of Research" in shown
    assert "Its node is drained. It waits again." in shown
    assert (
        "Main: 2 of 8.572 in use (8 GPUs and 4 slices worth 0.572 GPUs) without, 1 of 0 GPUs in use with"
        in shown
    )
    assert ">Save<" not in shown
    assert "Choose a node." in none


@pytest.mark.parametrize("node", ["east/nowhere", "west/n1", "east", "east/\x00"])
def test_a_node_that_there_is_not_cannot_be_drained(acme: Acme, client: Client, node: str) -> None:
    client.force_login(acme.admin)
    assert client.post(reverse("scheduling:what-if-drain"), {"node": [node]}).status_code == 404


def test_of_many_the_first_ten_are_listed_and_all_are_counted(acme: Acme, client: Client) -> None:
    for _ in range(12):
        make_workload(acme.research, acme.owner)
    url = reverse("scheduling:what-if-pool", args=["main"])

    text = ask(client, acme.admin, url, **{**POLICY, "paused": "on"})

    assert "Would not start: 12 workloads of Research, 12 GPUs" in text
    assert text.count("Would not start</td>") == 10
    assert "2 more are counted above" in text


def test_what_of_a_policy_is_not_worked_out_is_said(acme: Acme, client: Client) -> None:
    Pool.objects.update(policy={"fairness": "usage"})
    url = reverse("scheduling:what-if-pool", args=["main"])
    by_use = {**POLICY, "fairness": "usage"}
    values = {**by_use, "node_selector": "gpu=a100", "usage_half_life_seconds": "1d"}

    text = ask(client, acme.admin, url, **values)

    assert "the effect shown is with the nodes that it has now" in text
    assert "half life of before" in text
    assert "It is from 1m to 3650d, not 5s." in ask(
        client, acme.admin, url, **{**by_use, "usage_half_life_seconds": "5s"}
    )


def test_a_half_life_is_told_of_only_where_use_counted_before_and_does_after(
    acme: Acme, client: Client
) -> None:
    url = reverse("scheduling:what-if-pool", args=["main"])
    for fairness in ("entitlement", "usage"):
        values = {**POLICY, "fairness": fairness, "usage_half_life_seconds": "1d"}
        assert "half life of before" not in ask(client, acme.admin, url, **values)


def test_of_others_only_what_anybody_may_know_is_shown(acme: Acme, client: Client) -> None:
    """Moving Production's guarantee down to Serving lets one start there instead of two above: one is spared."""
    busy(acme)
    set_share(acme.production, acme.pool, gpus=2)
    make_workload(make_team(acme.production, "Serving"), acme.outsider, slug="served", priority=100)
    admin = member(acme.production, Role.ADMIN, "pia")
    row = {**ROW, "share_version": 0, "reservation": 2}

    whole = ask(client, acme.admin, row_url("serving"), **row)
    part = ask(client, admin, row_url("serving"), **row)

    assert "served" in part
    assert "Not preempted: 1 workload of Research, 1 GPU" in part
    assert "burst-" in whole
    assert "burst-" not in part
    spared = part[part.index("Another team’s") :]
    assert spared.index("Not preempted") < spared.index("Research") < spared.index(">70<")
    assert '<th scope="row">Research</th>' not in part


@pytest.mark.parametrize(
    ("who", "status"), [("owner", 403), ("mate", 403), ("outsider", 404), ("stranger", 404)]
)
def test_who_may_not_save_the_row_gets_no_effect_of_it(
    acme: Acme, client: Client, who: str, status: int
) -> None:
    ask(client, getattr(acme, who), row_url("research"), status=status, **ROW, reservation=1)


def test_a_viewer_gets_no_effect_of_a_draft_or_policy(acme: Acme, client: Client) -> None:
    bind(acme.stranger, acme.root, Role.VIEWER)

    ask(client, acme.stranger, reverse("scheduling:what-if-teams") + "?pool=main", status=403)
    ask(client, acme.stranger, reverse("scheduling:what-if-pool", args=["main"]), status=403, **POLICY)


def test_while_it_is_worked_out_the_panel_asks_again_and_the_page_offers_to(
    acme: Acme, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ask", Mock(return_value=None))

    panel = ask(client, acme.admin, row_url("production"), **ROW, reservation=2)
    page = ask(client, acme.admin, row_url("production"), page=True, **ROW, reservation=2)

    assert f'hx-post="{row_url("production")}"' in panel
    assert 'hx-trigger="load delay:1s"' in panel
    assert "Look again" in page


def test_one_too_many_is_told_in_the_panel_which_asks_again(
    acme: Acme, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ask", Mock(side_effect=TooMany))

    text = ask(client, acme.admin, row_url("production"), page=True, **ROW, reservation=2)

    assert "Ask again in a few seconds." in text
    assert 'hx-trigger="load delay:1s"' in text
    assert "Look again" in text
    assert "This cannot be saved" not in text


def test_it_takes_posts_of_signed_in_people_only(acme: Acme, client: Client) -> None:
    assert client.post(row_url("production"), {}).status_code == 302
    client.force_login(acme.admin)
    assert client.get(row_url("production")).status_code == 405


def test_forms_offer_the_effect_with_and_without_scripts(acme: Acme, client: Client) -> None:
    client.force_login(acme.admin)
    pages = {
        reverse("teams:edit", args=["research"]) + "?pool=main": row_url("research"),
        reverse("teams:edit-all") + "?pool=main": reverse("scheduling:what-if-teams") + "?pool=main",
        reverse("teams:pool-edit", args=["main"]): reverse("scheduling:what-if-pool", args=["main"]),
    }
    for url, effect in pages.items():
        text = client.get(url).content.decode()
        assert f'formaction="{effect}" hx-post="{effect}"' in text, url


def test_it_takes_as_many_queries_for_many_teams_and_workloads_as_for_few(acme: Acme, client: Client) -> None:
    client.force_login(acme.admin)
    counts = []
    for more in (1, 1, 20):
        for _ in range(more):
            team = make_team(acme.production)
            make_workload(team, acme.outsider, gpu_milli=4000, priority=100)
        run_cycle()
        recent.forget()
        asking.forget()
        with CaptureQueriesContext(connection) as queries:
            answer = client.post(
                row_url("production"), {**ROW, "reservation": 3}, headers={"HX-Request": "true"}
            )
        assert "Effect on teams" in answer.content.decode()
        counts.append(len(queries))

    assert counts[1] == counts[2] <= 30
