"""The cells with bars that the page of teams puts into its rows."""

from django.test import Client
from django.urls import reverse

from scheduling.cycle.cycle import run_cycle
from scheduling.tests.conftest import Acme
from workloads.tests.factories import make_workload

URL = "scheduling:team-figures"


def test_each_visible_team_has_a_cell_with_its_bar(acme: Acme, client: Client) -> None:
    make_workload(acme.research, acme.owner, gpu_milli=2000, priority=100)
    make_workload(acme.production, acme.outsider, gpu_milli=4000, pods=3, priority=100)
    run_cycle()
    client.force_login(acme.owner)

    text = client.get(reverse(URL), {"pool": "main"}).content.decode()

    assert f'<td id="fig-{acme.research.pk}"' in text
    assert "Research: reserved 2 GPUs, guarantee 8 GPUs" in text
    assert f"fig-{acme.production.pk}" not in text
    assert f"fig-{acme.root.pk}" not in text


def test_without_a_pool_there_is_nothing_to_show_and_an_unknown_one_is_not_found(
    acme: Acme, client: Client
) -> None:
    client.force_login(acme.stranger)
    assert client.get(reverse(URL)).content.decode().strip() == ""

    client.force_login(acme.owner)
    assert client.get(reverse(URL), {"pool": "nowhere"}).status_code == 404
