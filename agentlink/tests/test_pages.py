"""Pages of pools and clusters: what they show to whom, and how many queries that takes."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agentlink import inventory
from agentlink.models import AgentToken, Cluster, Hold, Node
from agentlink.protocol import Inventory, NodeReport
from agentlink.tests.factories import make_cluster, make_node, place
from teams.models import Pool, Role, Team
from teams.tests.factories import make_org, make_pool, make_team, make_user, member
from workloads.tests.factories import admit, make_workload

pytestmark = pytest.mark.django_db


@pytest.fixture
def org() -> Team:
    return make_org()


@pytest.fixture
def pool() -> Pool:
    return make_pool("Main")


def signed_in(client: Client, team: Team, role: Role) -> Client:
    client.force_login(member(team, role))
    return client


def test_without_pools_and_clusters_it_says_what_comes_first(client: Client, org: Team) -> None:
    page = signed_in(client, org, Role.VIEWER).get("/pools/").content.decode()
    assert "No pools yet" in page
    assert "No clusters yet" in page
    assert "An operator connects them" in page
    assert "Connect one" not in page
    assert "Connect a cluster" not in page


def test_the_map_has_a_cell_per_device_in_the_state_it_is_in(client: Client, org: Team, pool: Pool) -> None:
    node = make_node(make_cluster(), "n0", gpus=4, pool=pool)
    node.devices.filter(index=3).update(foreign=True)
    reserved = make_workload(org, make_user(), priority=100)
    elastic = make_workload(org, make_user(), gpu_milli=500)
    place(admit(reserved, pool), node, 0)
    place(admit(elastic, pool), node, 1, share=500)
    page = signed_in(client, org, Role.VIEWER).get("/pools/main/").content.decode()
    for state in ("reserved", "shared", "free", "foreign"):
        assert page.count(f'class="device device-{state}" title=') == 1, state
    assert reserved.slug in page


def machines_with_slices(pool: Pool) -> None:
    """Eight GPUs on one node, nine slices on another."""
    cluster = make_cluster()
    make_node(cluster, "n0", gpus=8, pool=pool)
    cut = make_node(cluster, "n1", gpus=9, pool=pool, gpu_type="mig-1g.10gb")
    cut.devices.update(slicing="mig", share_milli=143)
    cut.devices.filter(index__gte=7).update(gpu_type="mig-3g.40gb", share_milli=429)


def test_slices_are_shown_apart_from_gpus(client: Client, org: Team, pool: Pool) -> None:
    machines_with_slices(pool)
    told = "8 GPUs and 9 slices worth 1.859 GPUs"
    signed_in(client, org, Role.VIEWER)
    one = client.get("/pools/main/").content.decode()
    assert told in one
    assert "and slices mig-1g.10gb (0.143 GPUs), mig-3g.40gb (0.429 GPUs)</dt><dd>H100</dd>" in one
    assert '<span class="muted">8 × H100</span>' in one
    assert '<span class="muted">9 slices</span>' in one
    assert one.count('class="device device-free device-slice" title=') == 9
    assert 'title="Slice 8 (mig-3g.40gb, 0.429 GPUs): free"' in one
    assert 'aria-label="n1: slices: 9 free"' in one
    assert "Slice of a GPU" in one
    every = client.get("/pools/").content.decode()
    assert told in every
    assert "and 9 slices worth 1.859 GPUs" in every
    assert "H100; slices mig-1g.10gb (0.143 GPUs), mig-3g.40gb (0.429 GPUs)" in every
    assert not re.search(r"\b17 GPU|>17\b", every.split("Clusters</h2>")[1].split("</table>")[0])
    assert told in client.get("/").content.decode()
    assert 'device-slice"' in client.get("/clusters/east/").content.decode()


def test_without_slices_nothing_is_said_of_them(client: Client, org: Team, pool: Pool) -> None:
    make_node(make_cluster(), "n0", gpus=8, pool=pool)
    signed_in(client, org, Role.VIEWER)
    for address in ("/pools/", "/pools/main/", "/clusters/east/", "/"):
        assert "slice" not in client.get(address).content.decode().lower()


def test_a_slice_that_a_pod_has_is_not_shared(client: Client, org: Team, pool: Pool) -> None:
    machines_with_slices(pool)
    workload = make_workload(org, make_user(), gpu_types=["mig-1g.10gb"])
    place(admit(workload, pool), Node.objects.get(name="n1"), 0, share=143)
    page = signed_in(client, org, Role.VIEWER).get("/pools/main/").content.decode()
    title = f'"Slice 0 (mig-1g.10gb, 0.143 GPUs): {workload.slug}"'
    assert f'class="device device-elastic device-slice" title={title}' in page


def test_the_pool_s_page_tells_operators_the_command_by_which_nodes_are_drained(
    client: Client, org: Team, pool: Pool
) -> None:
    """Pods have a volume for /dev/shm: without the option for that `kubectl drain` evicts none of them."""
    machines_with_slices(pool)
    page = signed_in(client, org, Role.OPERATOR).get("/pools/main/").content.decode()
    assert ">kubectl drain NODE --ignore-daemonsets --delete-emptydir-data</span>" in page


def test_an_agent_that_is_too_old_for_slices_is_told_of(client: Client, org: Team) -> None:
    make_cluster("east", unclear_slices=9)
    make_cluster("west", unclear_slices=1)
    signed_in(client, org, Role.VIEWER)
    page = client.get("/clusters/east/").content.decode()
    assert "tells 9 slices of GPUs (MIG, time-slicing or MPS) as GPUs. Nothing new starts on them." in page
    assert "tells 1 slice of GPUs" in client.get("/clusters/west/").content.decode()
    assert "9 not used: the agent is too old" in client.get("/pools/").content.decode()


def test_a_workload_of_a_team_i_may_not_see_is_not_named(client: Client, org: Team, pool: Pool) -> None:
    mine, other = make_team(org, "Mine"), make_team(org, "Other")
    node = make_node(make_cluster(), "n0", gpus=1, pool=pool)
    secret = make_workload(other, make_user(), name="secret-project")
    place(admit(secret, pool), node, 0, hold=Hold.HELD)
    page = signed_in(client, mine, Role.RESEARCHER).get("/pools/main/").content.decode()
    assert "secret-project" not in page
    assert "a workload of Other" in page


def test_devices_of_a_silent_cluster_are_down(client: Client, org: Team, pool: Pool) -> None:
    make_node(make_cluster(connected=False), "n0", gpus=2, pool=pool)
    page = signed_in(client, org, Role.VIEWER).get("/pools/main/").content.decode()
    assert page.count('class="device device-down" title=') == 2


def test_the_map_takes_the_same_queries_for_two_nodes_and_forty(
    client: Client, org: Team, pool: Pool, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    cluster = make_cluster()
    signed_in(client, org, Role.VIEWER)
    for index in range(40):
        place(admit(make_workload(org, make_user()), pool), make_node(cluster, f"n{index}", pool=pool), 0)
    with django_assert_max_num_queries(14):
        assert client.get("/pools/main/").status_code == 200


def test_a_cluster_s_page_says_that_the_database_was_restored(client: Client, org: Team) -> None:
    signed_in(client, org, Role.OPERATOR)
    make_cluster("east", restored_at=timezone.now())
    assert (
        "The database was restored from a backup, or its agent"
        in client.get("/clusters/east/").content.decode()
    )


def test_a_pool_says_what_pods_get_with_each_gpu(client: Client, org: Team, pool: Pool) -> None:
    signed_in(client, org, Role.VIEWER)
    make_node(make_cluster(), "n", gpus=4, pool=pool, cpu_milli=40_000, memory_mib=400 * 1024)
    page = client.get("/pools/main/").content.decode()
    assert "7.5 CPU cores, 75 GiB" in page
    Pool.objects.update(policy={"cpu_per_gpu": 0, "memory_mib_per_gpu": 1024})
    assert "no CPU, 1 GiB" in client.get("/pools/main/").content.decode()


def test_one_gpu_and_one_core_are_no_plural(client: Client, org: Team, pool: Pool) -> None:
    signed_in(client, org, Role.VIEWER)
    Pool.objects.update(policy={"cpu_per_gpu": 1, "memory_mib_per_gpu": 0})
    node = make_node(make_cluster(), "n", gpus=1, pool=pool)
    page = client.get("/pools/main/").content.decode()
    assert page.count("<dd>1 <small>GPU</small></dd>") == 3, "capacity, idle, and most free on one node"
    assert "<dd>0 <small>GPUs</small></dd>" in page
    assert "1 CPU core, no memory" in page
    place(admit(make_workload(org, make_user()), pool), node, 0)
    assert "<dt>In use</dt><dd>1 <small>GPU</small></dd>" in client.get("/pools/main/").content.decode()


def test_outsiders_find_no_pool_and_no_cluster(client: Client, pool: Pool) -> None:
    make_cluster("east")
    client.force_login(make_user("outsider"))
    assert client.get("/pools/main/").status_code == 404
    assert client.get("/clusters/east/").status_code == 404


def test_connecting_shows_the_token_once(client: Client, org: Team) -> None:
    signed_in(client, org, Role.OPERATOR)
    page = client.post("/clusters/connect/", {"name": "west", "backend": "native"}).content.decode()
    prefix = AgentToken.objects.get(cluster__name="west").prefix
    assert f"{prefix}" in page
    assert "helm upgrade --install chamber-agent deploy/chart" in page
    assert "--set agent.url=http://testserver" in page
    assert "--from-file=token=west.token" in page
    again = client.get("/clusters/west/").content.decode()
    assert "helm upgrade" not in again
    assert "Waiting for its agent" in again


def test_a_simulated_cluster_is_connected_by_a_command_of_chamber_s_own(client: Client, org: Team) -> None:
    signed_in(client, org, Role.OPERATOR)
    page = client.post("/clusters/connect/", {"name": "west", "backend": "simulated"}).content.decode()
    assert "chamber agent --url http://testserver --token-file west.token --simulate nodes.json" in page


def test_a_wrong_name_stays_in_the_form_with_the_sentence_beside_it(client: Client, org: Team) -> None:
    signed_in(client, org, Role.OPERATOR)
    make_cluster("east")
    answer = client.post("/clusters/connect/", {"name": "east", "backend": "native"})
    assert answer.status_code == 422
    assert "There is a cluster named &#x27;east&#x27; already." in answer.content.decode()
    assert 'value="east"' in answer.content.decode()


@pytest.mark.parametrize("name", ["No", "a b", "-x", "a_b", "connect"])
def test_a_name_that_cannot_be_is_refused_in_words(client: Client, org: Team, name: str) -> None:
    signed_in(client, org, Role.OPERATOR)
    page = client.post("/clusters/connect/", {"name": name, "backend": "native"}).content.decode()
    assert (
        "is no name for a cluster: use up to 60 small letters" in page or "is the address of a page" in page
    )
    assert "slug" not in page.lower().replace("aria-", "")
    assert not Cluster.objects.exists()


def test_an_address_of_this_machine_alone_is_warned_of(client: Client, org: Team, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    signed_in(client, org, Role.OPERATOR)
    body = {"name": "west", "backend": "native"}
    page = client.post("/clusters/connect/", body, headers={"host": "127.0.0.1:8000"}).content.decode()
    assert "An agent elsewhere needs another in its place" in page
    page = client.post("/clusters/west/tokens/", headers={"host": "chamber.example.org"}).content.decode()
    assert "An agent elsewhere needs another in its place" not in page


def test_operators_choose_nodes_to_see_what_draining_them_would_do(
    client: Client, org: Team, pool: Pool
) -> None:
    make_node(make_cluster("east"), "n0", pool=pool)
    page = signed_in(client, org, Role.OPERATOR).get("/pools/main/").content.decode()
    assert '<option value="east/n0">n0 in east</option>' in page
    assert 'hx-post="/scheduling/what-if/drain/"' in page
    assert "what-if/drain" not in signed_in(client, org, Role.VIEWER).get("/pools/main/").content.decode()


def test_nodes_of_no_pool_are_told_of_with_what_to_do(client: Client, org: Team, pool: Pool) -> None:
    cluster = make_cluster("east")
    make_node(cluster, "n0", pool=pool)
    signed_in(client, org, Role.VIEWER)
    assert "to no pool" not in client.get("/clusters/east/").content.decode()
    make_node(cluster, "n1")
    page = client.get("/clusters/east/").content.decode()
    assert "1 node belongs to no pool, so nothing starts on it" in page
    assert "chamber.internal/cluster=east" in page


def test_a_drain_that_cannot_be_read_is_told_with_its_node(client: Client, org: Team, pool: Pool) -> None:
    cluster = make_cluster("east")
    problem = "Its annotation chamber.internal/drain-elastic-at says 'tomorrow', which is no time."
    assert inventory.take(
        cluster.pk,
        Inventory(generation=1, part=0, last=True, nodes=(NodeReport(name="n0", problem=problem),)),
        connection=cluster.connection,
    )
    page = signed_in(client, org, Role.VIEWER).get("/clusters/east/").content.decode()
    assert 'Node <span class="mono">n0</span>: Its annotation chamber.internal/drain-elastic-at says' in page


def test_viewers_may_look_but_neither_connect_nor_revoke(client: Client, org: Team) -> None:
    signed_in(client, org, Role.VIEWER)
    cluster = make_cluster("east")
    token = AgentToken.objects.create(cluster=cluster, token_hash="x", prefix="cha_x")
    assert client.get("/clusters/connect/").status_code == 403
    assert client.post("/clusters/connect/", {"name": "west", "backend": "native"}).status_code == 403
    assert client.post(f"/clusters/east/tokens/{token.pk}/revoke/").status_code == 403
    assert client.post("/clusters/east/tokens/").status_code == 403
    assert client.post("/clusters/east/lost/").status_code == 403
    token.refresh_from_db()
    assert token.revoked_at is None
    assert Cluster.objects.count() == 1


def test_only_a_silent_cluster_may_be_declared_lost(client: Client, org: Team) -> None:
    cluster = make_cluster()
    signed_in(client, org, Role.OPERATOR)
    lost = f"/clusters/{cluster.name}/lost/"
    assert lost not in client.get(f"/clusters/{cluster.name}/").content.decode()
    Cluster.objects.update(connected=False)
    page = client.get(f"/clusters/{cluster.name}/").content.decode()
    assert lost in page
    assert "Disconnected" in page
    assert "last seen" in page


def test_the_policy_is_told_in_words(client: Client, org: Team) -> None:
    make_pool("Main", policy={"queueing": "strict-fifo", "min_runtime_seconds": 90})
    page = signed_in(client, org, Role.VIEWER).get("/pools/main/").content.decode()
    assert "Strict FIFO: later workloads wait" in page
    assert "1 min 30 s" in page


def test_the_fragment_is_a_part_of_the_page(client: Client, org: Team, pool: Pool) -> None:
    signed_in(client, org, Role.VIEWER)
    fragment = client.get("/pools/main/", headers={"X-Chamber-Fragment": "1"}).content.decode()
    assert fragment.startswith('<div id="pool"')
    assert "<html" not in fragment
