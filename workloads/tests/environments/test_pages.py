"""The pages of environments, and the form of a submission that offers them."""

from typing import Any

import pytest
from django.test import Client

from chamber.models import User
from teams.models import Pool, Team
from teams.tests.factories import actor
from workloads.environments import views
from workloads.environments.actions import archive_environment
from workloads.models import Environment, EnvironmentVersion, Workload
from workloads.tests.environments.conftest import IMAGE, VALUES, make

LIST = "/settings/environments/"
ONE = "/settings/environments/nlp/pytorch/"
TYPED = {
    **VALUES,
    "command": "python train.py",
    "variables": "NCCL_DEBUG=INFO\nEPOCHS=3",
    "shm_mib": "16 GiB",
    "scratch_mib": "200 GiB",
    "gpu_types": "A100",
    "node_selector": "zone=a",
}


@pytest.fixture
def browser(client: Client, lead: User) -> Client:
    client.force_login(lead)
    return client


def content(answer: Any) -> str:
    return str(answer.content.decode())


def test_one_is_made_on_the_page(browser: Client) -> None:
    assert "No environments yet" in content(browser.get(LIST))
    answer = browser.post(LIST, {**TYPED, "name": "pytorch", "team": "nlp"})
    assert answer.headers["Location"] == ONE
    version = EnvironmentVersion.objects.get()
    assert version.command == ["sh", "-c", "python train.py"]
    assert {name: getattr(version, name) for name in VALUES if name != "command"} == {
        name: value for name, value in VALUES.items() if name != "command"
    }
    assert "nlp/pytorch" in content(browser.get(LIST))


def test_what_is_wrong_stands_beside_its_field_and_is_kept(browser: Client) -> None:
    answer = browser.post(LIST, {**TYPED, "name": "Py", "team": "nlp", "variables": "A"})
    assert answer.status_code == 422
    assert "write NAME=value on each line" in content(answer)
    answer = browser.post(LIST, {**TYPED, "name": "pytorch", "team": "nlp", "image": "i@sha256:1"})
    assert "64 small hexadecimal digits" in content(answer)
    assert 'value="16 GiB"' in content(answer)
    assert not Environment.objects.exists()


def test_a_new_version_begins_as_the_newest(browser: Client, lead: User, team: Team) -> None:
    make(lead, team, **VALUES, note="Old")
    page = content(browser.get(ONE))
    assert "NCCL_DEBUG=INFO" in page
    assert 'value="16384 MiB"' in page
    answer = browser.post(ONE, {**TYPED, "image": "train:2"})
    assert answer.headers["Location"] == ONE
    page = content(browser.get(ONE))
    assert page.index("Version 2") < page.index("Version 1")


def test_pages_of_a_list_keep_what_it_shows(
    browser: Client, lead: User, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PAGE_ROWS", 1)
    monkeypatch.setattr(views, "VERSIONS_SHOWN", 1)
    for name in ("jax", "pytorch"):
        archive_environment(by=actor(lead), environment=make(lead, team, name), archived=True)
    page = content(browser.get(LIST, {"team": "nlp", "archived": "1"}))
    assert 'href="?team=nlp&amp;archived=1&amp;page=2"' in page
    archive_environment(by=actor(lead), environment=Environment.objects.get(name="pytorch"), archived=False)
    browser.post(ONE, {**TYPED, "image": "train:2"})
    page = content(browser.get(ONE))
    assert 'id="version-2"' in page
    assert 'id="version-1"' not in page
    assert 'id="version-1"' in content(browser.get(ONE, {"page": "2"}))


def test_it_is_archived_restored_and_deleted(browser: Client, lead: User, team: Team) -> None:
    make(lead, team)
    assert "Archived" in content(browser.post(f"{ONE}act/", {"act": "archive"}, follow=True))
    assert "nlp/pytorch" not in content(browser.get(LIST))
    assert "nlp/pytorch" in content(browser.get(LIST, {"archived": "1"}))
    browser.post(f"{ONE}act/", {"act": "restore"})
    assert "nlp/pytorch" in content(browser.get(LIST))
    assert browser.post(f"{ONE}act/", {"act": "burn"}).status_code == 422
    assert browser.post(f"{ONE}act/", {"act": "delete"}).headers["Location"] == LIST
    assert not Environment.objects.exists()


def test_a_researcher_sees_and_changes_nothing(client: Client, owner: User, lead: User, team: Team) -> None:
    make(lead, team, **VALUES)
    client.force_login(owner)
    for address in (LIST, ONE):
        page = content(client.get(address))
        assert "nlp/pytorch" in page
        assert "<textarea" not in page
    assert client.post(LIST, {**TYPED, "name": "jax", "team": "nlp"}).status_code == 403
    assert client.post(ONE, TYPED).status_code == 403
    assert client.post(f"{ONE}act/", {"act": "delete"}).status_code == 403


def test_the_form_offers_those_of_the_team(
    client: Client, owner: User, lead: User, team: Team, pool: Pool
) -> None:
    client.force_login(owner)
    assert 'name="runs_in"' not in content(client.get("/workloads/submit/"))
    make(lead, team, **VALUES)
    page = content(client.get("/workloads/submit/"))
    assert '<option value="nlp/pytorch">' in page
    form = {"name": "bert", "team": "nlp", "runs_in": "nlp/pytorch", "pods": "1", "gpus": "1", "tab": "form"}
    answer = client.post("/workloads/submit/", form)
    assert answer.status_code == 302, content(answer)
    workload = Workload.objects.get()
    assert (workload.runs_in, workload.image) == ("nlp/pytorch@1", IMAGE)
    page = content(client.get(f"/workloads/{workload.slug}/"))
    assert f'<a href="{ONE}">nlp/pytorch@1</a>' in page
    clone = content(client.get("/workloads/submit/", {"clone": workload.slug}))
    assert '<option value="nlp/pytorch@1" selected>' in clone
