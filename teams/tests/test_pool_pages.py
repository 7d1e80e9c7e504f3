"""The forms of pools."""

import pytest

from teams.models import Pool, Role
from teams.tests.conftest import Acme, SignIn
from teams.tests.factories import bind

URL = "/teams/pools/main/edit/"
VALUES = {
    "version": 1,
    "name": "Main",
    "slug": "main",
    "order": 0,
    "node_selector": "gpu=a100\nzone = a",
    "topology": "zone\nrack",
    "queueing": "strict-fifo",
    "elastic_preemption": "never",
    "placement": "spread",
    "fairness": "usage",
    "sharing": "none",
    "usage_half_life_seconds": "7d",
    "min_runtime_seconds": "1h 30m",
    "max_preemptions": "",
    "default_time_limit_seconds": "7200",
    "cpu_per_gpu": "7.5",
    "memory_mib_per_gpu": "",
}


def test_saves_nodes_and_policy(acme: Acme, sign_in: SignIn) -> None:
    response = sign_in(acme.org_admin).post(URL, VALUES)
    assert response.headers["Location"] == "/pools/main/"
    pool = Pool.objects.get()
    assert pool.node_selector == {"gpu": "a100", "zone": "a"}
    assert pool.topology == ["zone", "rack"]
    assert (pool.rules.queueing, pool.rules.min_runtime_seconds) == ("strict-fifo", 5400)
    assert (pool.rules.usage_half_life_seconds, pool.rules.default_time_limit_seconds) == (604_800, 7200)
    assert (pool.rules.cpu_per_gpu, pool.rules.memory_mib_per_gpu) == (7.5, None)


def test_saves_and_shows_peak_hours(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.org_admin)
    hours = {
        "peak_hours": "mon-fri 08:00-18:00\nsat 22:00-06:00",
        "peak_zone": "Europe/Berlin",
        "peak_max_gpus": "16",
        "peak_classes": "training",
    }
    browser.post(URL, VALUES | hours)
    rules = Pool.objects.get().rules
    assert rules.peak_hours == ["mon-fri 08:00-18:00", "sat 22:00-06:00"]
    assert (rules.peak_zone, rules.peak_max_gpus, rules.peak_classes) == ("Europe/Berlin", 16, ["training"])
    assert "mon-fri 08:00-18:00\nsat 22:00-06:00" in browser.get(URL).content.decode()
    browser.post(URL, VALUES | {"version": 2})
    assert (Pool.objects.get().rules.peak_hours, Pool.objects.get().rules.peak_zone) == ([], "UTC")


def test_peak_hours_are_folded_until_there_are_some_or_they_are_wrong(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.org_admin)
    closed, opened = ("<details><summary>Peak hours", "<details open><summary>Peak hours")
    assert closed in browser.get(URL).content.decode()
    refused = browser.post(URL, VALUES | {"peak_zone": "Mars"})
    assert refused.status_code == 422
    assert opened in refused.content.decode()
    assert "is no time zone" in refused.content.decode()
    browser.post(URL, VALUES | {"peak_hours": "mon 08:00-18:00", "peak_max_gpus": "0.25"})
    assert opened in browser.get(URL).content.decode()
    assert "of more than 0.25 GPUs do not start then" in browser.get("/pools/main/").content.decode()


def test_shows_the_stored_values(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.org_admin)
    browser.post(URL, VALUES)
    html = browser.get(URL).content.decode()
    assert "gpu=a100\nzone=a" in html
    assert '<option value="spread" selected>' in html
    assert 'name="min_runtime_seconds" value="1h 30m"' in html
    assert 'name="cpu_per_gpu" value="7.5"' in html
    assert 'name="usage_half_life_seconds" value="7d"' in html


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"node_selector": "gpu"}, "written name=value"),
        ({"usage_half_life_seconds": "5s"}, "It is from 1m to 3650d, not 5s."),
        ({"usage_half_life_seconds": ""}, "Usage half-life is missing."),
        ({"min_runtime_seconds": "soon"}, "&#x27;soon&#x27; is not a duration"),
        ({"cpu_per_gpu": "-1"}, "CPU cores per GPU is &#x27;-1&#x27;; at least 0 is allowed."),
        ({"default_time_limit_seconds": "0"}, "It is from 1s to 3650d, not 0."),
        ({"slug": "Main!"}, "small letters"),
        ({"version": 7}, "Somebody changed Main"),
    ],
)
def test_wrong_values_are_told(acme: Acme, sign_in: SignIn, change: dict[str, object], told: str) -> None:
    response = sign_in(acme.org_admin).post(URL, VALUES | change)
    assert response.status_code == 422
    assert told in response.content.decode()
    assert Pool.objects.get().version == 1


def test_an_operator_makes_a_pool(acme: Acme, sign_in: SignIn) -> None:
    bind(acme.stranger, acme.root, Role.OPERATOR)
    response = sign_in(acme.stranger).post("/teams/pools/new/", VALUES | {"version": "", "slug": "a100"})
    assert response.headers["Location"] == "/pools/a100/"


@pytest.mark.parametrize("who", ["admin", "lead", "viewer", "stranger"])
def test_others_do_not(acme: Acme, sign_in: SignIn, who: str) -> None:
    browser = sign_in(getattr(acme, who))
    assert browser.get("/teams/pools/new/").status_code == 403
    assert browser.post(URL, VALUES).status_code == (404 if who == "stranger" else 403)
