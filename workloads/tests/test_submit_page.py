"""The form: what it proposes, what it refuses beside the fields, and that it submits once."""

import re
from typing import Any

import pytest
from django.test import Client

from agentlink.tests.factories import make_cluster, make_node
from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import member
from workloads import known
from workloads.forms import gpu_types_help
from workloads.models import Workload
from workloads.tests.factories import make_workload

URL = "/workloads/submit/"
FILLED = {
    "name": "bert",
    "team": "nlp",
    "job_class": "training",
    "image": "train:1",
    "command": "python train.py",
    "environment": "EPOCHS=3\nLR = 0.1",
    "pods": "2",
    "gpus": "4",
    "time_limit_seconds": "4h",
    "tier": "high",
    "on_preemption": "requeue",
    "max_requeues": "20",
    "max_retries": "1",
    "grace_seconds": "30s",
    "memory_mib": "64 GiB",
    "shm_mib": "8 GiB",
    "labels": "cost-centre=42",
    "annotations": "note=Ask Ada.",
}


@pytest.fixture
def signed_in(client: Client, owner: User, pool: Pool) -> Client:
    client.force_login(owner)
    return client


def shown(response: Any, field: str) -> Any:
    return response.context["form"][field].value()


def test_filled_in_it_becomes_a_workload_and_leads_to_its_page(signed_in: Client) -> None:
    response = signed_in.post(URL, FILLED)
    workload = Workload.objects.get()
    assert response.headers["Location"] == f"/workloads/{workload.slug}/"
    assert (workload.pods, workload.gpu_milli, workload.priority, workload.memory_mib) == (2, 4000, 75, 65536)
    assert workload.environment == {"EPOCHS": "3", "LR": "0.1"}
    assert workload.command == ["sh", "-c", "python train.py"]
    assert (workload.labels, workload.annotations, workload.shm_mib) == (
        {"cost-centre": "42"},
        {"note": "Ask Ada."},
        8192,
    )
    page = signed_in.get(response.headers["Location"]).content.decode()
    assert "cost-centre=42" in page
    assert "note: Ask Ada." in page
    assert workload.events.get().via == "page"


def test_its_output_is_read_for_notes_only_where_that_is_asked_for(signed_in: Client) -> None:
    signed_in.post(URL, FILLED | {"name": "silent"})
    signed_in.post(URL, FILLED | {"name": "says", "read_notes": "on"})
    assert dict(Workload.objects.values_list("name", "read_notes")) == {"silent": None, "says": True}
    says = Workload.objects.get(name="says")
    assert shown(signed_in.get(URL, {"clone": says.slug}), "read_notes") is True
    told = signed_in.get(f"/api/v1/workloads/{says.slug}/").json()
    assert told["read_notes"] is True


def test_pressed_twice_it_submits_once_and_changed_it_submits_anew(signed_in: Client) -> None:
    answers = [signed_in.post(URL, FILLED | {"token": "t"}).headers["Location"] for _ in range(2)]
    assert answers[0] == answers[1]
    signed_in.post(URL, FILLED | {"token": "t", "name": "other"})
    assert Workload.objects.count() == 2


MISTAKES = {
    "1.25 GPUs": ({"gpus": "1.25"}, "gpus", "nearest legal values are 1 and 2"),
    "no pods": ({"pods": "0"}, "pods", "at least 1 is allowed"),
    "no name": ({"name": ""}, "name", "Name is missing"),
    "a tier beyond me": ({"tier": "other", "priority": "150"}, "priority", "outside your range in NLP"),
    "an unknown tier": ({"tier": "urgent"}, "tier", "There is no priority tier &#x27;urgent&#x27;"),
    "a label that steers": (
        {"labels": "k8s.io/a=b"},
        "labels",
        "the names of k8s.io are not for submissions",
    ),
    "no other priority": ({"tier": "other"}, "priority", "is no priority"),
    "a line that is no variable": ({"environment": "A=1\nB"}, "environment", "Line 2 is &#x27;B&#x27;"),
    "a team that is not mine": ({"team": "vision"}, "team", "There is no team &#x27;vision&#x27;"),
    "an unknown pool": ({"pools": "mars"}, "pools", "There is no pool &#x27;mars&#x27;"),
}


@pytest.mark.parametrize(("change", "field", "sentence"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_stands_beside_its_field_and_values_are_kept(
    signed_in: Client, change: dict[str, str], field: str, sentence: str
) -> None:
    response = signed_in.post(URL, FILLED | change)
    page = response.content.decode()
    assert response.status_code == 422
    assert sentence in page
    assert f'id="id_{field}_error"' in page
    assert 'value="4h"' in page
    assert not Workload.objects.exists()


def test_choosing_a_class_proposes_its_values_and_keeps_what_was_typed(signed_in: Client) -> None:
    typed = {
        **FILLED,
        "propose": "1",
        "job_class": "serving",
        "proposed_for": "training",
        "proposed_in": "nlp",
    }
    typed |= {"tier": "normal", "time_limit_seconds": "24h", "max_retries": "7"}
    response = signed_in.post(URL, typed, headers={"HX-Request": "true"})
    assert response.content.decode().lstrip().startswith("<form")
    assert (shown(response, "tier"), shown(response, "time_limit_seconds")) == ("reserved", "")
    assert (shown(response, "max_retries"), shown(response, "name")) == ("7", "bert")
    assert not Workload.objects.exists()


def test_what_must_be_filled_in_is_marked(signed_in: Client) -> None:
    page = signed_in.get(URL).content.decode()
    marked = re.findall(r'for="id_(\w+)">[^<]*<span class="required">', page)
    assert marked == ["name", "team", "image"]


def test_a_clone_asks_for_the_same(signed_in: Client, team: Team, owner: User) -> None:
    workload = make_workload(team, owner, pods=3, gpu_milli=500, priority=33, command=["python", "a b.py"])
    response = signed_in.get(URL, {"clone": workload.slug})
    assert [shown(response, name) for name in ("pods", "gpus", "tier", "priority")] == [3, 0.5, "other", 33]
    assert shown(response, "command") == "python 'a b.py'"


def test_what_one_may_not_see_one_may_not_clone(signed_in: Client, other_team: Team) -> None:
    theirs = make_workload(other_team, member(other_team, Role.RESEARCHER))
    assert signed_in.get(URL, {"clone": theirs.slug}).status_code == 404


def test_yaml_submits_several(signed_in: Client) -> None:
    text = "workloads:\n- {name: a, team: nlp, image: x}\n- {name: b, team: nlp, image: x}\n"
    response = signed_in.post(URL, {"tab": "yaml", "manifest": text})
    assert response.headers["Location"] == "/workloads/?owner=me"
    assert Workload.objects.count() == 2


def test_yaml_with_a_mistake_is_kept_and_its_line_named(signed_in: Client) -> None:
    response = signed_in.post(URL, {"tab": "yaml", "manifest": "name: a\nteam: nlp\nimage: x\npods: 0\n"})
    assert response.status_code == 422
    assert b"Line 4: pods is 0; at least 1 is allowed." in response.content
    assert "pods: 0" in response.content.decode()


def test_yaml_tells_every_mistake_with_its_line_also_those_of_what_it_names(signed_in: Client) -> None:
    told = {
        "name: a\nteam: nlp\nimage: x\npods: 0\nhold: maybe\n": [
            "Line 4: pods is 0; at least 1 is allowed.",
            "Line 5: hold is 'maybe'; it must be true or false.",
        ],
        "workloads:\n- {name: a, team: nix, image: x}\n- {name: b, team: nlp, image: x}\n- name: c\n  team: nux\n"
        "  image: x\n": ["Line 2: There is no team 'nix'.", "Line 5: There is no team 'nux'."],
        "name: a\nteam: nlp\nimage: x\npools: [mian]\npriority: 100000\n": [
            "Line 4: There is no pool 'mian'. Did you mean 'main'?",
            "Line 5: ",
        ],
    }
    for text, sentences in told.items():
        response = signed_in.post(URL, {"tab": "yaml", "manifest": text})
        assert response.status_code == 422
        errors = response.context["form"].errors["manifest"]
        assert len(errors) == len(sentences)
        assert all(begin in error for begin, error in zip(sentences, sorted(errors), strict=True)), errors
    assert not Workload.objects.exists()


def test_a_manifest_of_a_megabyte_is_refused_with_a_sentence(signed_in: Client) -> None:
    response = signed_in.post(URL, {"tab": "yaml", "manifest": "a" * 1024 * 1024})
    assert response.status_code == 422
    assert b"at most 262,144 are taken" in response.content


def test_the_example_of_the_yaml_tab_is_taken(signed_in: Client) -> None:
    example = shown(signed_in.get(URL, {"tab": "yaml"}), "manifest")
    assert signed_in.post(URL, {"tab": "yaml", "manifest": example}).status_code == 302


def test_only_teams_that_take_my_submissions_are_offered(
    signed_in: Client, team: Team, other_team: Team, owner: User
) -> None:
    page = signed_in.get(URL).content.decode()
    assert 'value="nlp"' in page
    assert 'value="vision"' not in page
    assert "0 to 75 for elastic work, 100 for reserved work" in page


def test_a_viewer_is_told_whom_to_ask(client: Client, team: Team) -> None:
    client.force_login(member(team, Role.VIEWER))
    response = client.get(URL)
    assert response.status_code == 403
    assert b"ask a lead of a team" in response.content


def test_a_team_with_a_nul_in_its_name_is_a_mistake_and_no_fault(signed_in: Client) -> None:
    assert signed_in.get(URL, {"team": "a\0b"}).context["chosen_team"].slug == "nlp"
    assert signed_in.post(URL, FILLED | {"team": "a\0b", "propose": "1"}).status_code == 200
    response = signed_in.post(URL, FILLED | {"team": "a\0b"})
    assert response.status_code == 422
    assert b"holds a NUL character" in response.content


def test_ten_megabytes_of_yaml_are_refused_with_a_sentence(owner: User, pool: Pool) -> None:
    # As a browser sends it: the token of the form is looked for first, in a body that is too large to be read.
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner)
    browser.get(URL)
    response = browser.post(URL, {"tab": "yaml", "manifest": "a" * 10 * 1024 * 1024})
    assert response.status_code == 413
    assert b"The form holds more than 2 MiB" in response.content
    assert not Workload.objects.exists()


def test_the_form_names_slices_apart_from_gpus(owner: User, pool: Pool) -> None:
    node = make_node(make_cluster(), "n0", gpus=3, pool=pool)
    known.forget()
    assert gpu_types_help(known.pools()) == "Best first; empty takes any. GPUs: H100."
    node.devices.filter(index=2).update(gpu_type="mig-1g.10gb", slicing="mig", share_milli=143)
    known.forget()
    assert gpu_types_help(known.pools()) == (
        "Best first; empty takes any GPU. GPUs: H100. Slices of a GPU, one to a pod, only by name: "
        "mig-1g.10gb (0.143 GPUs)."
    )


def test_all_mistakes_are_told_at_once_lines_without_a_sign_too(signed_in: Client) -> None:
    wrong = {
        "environment": "FOO\nA=1\nBAR",
        "gpus": "two",
        "pods": "many",
        "time_limit_seconds": "4 fortnights",
    }
    errors = signed_in.post(URL, {**FILLED, **wrong, "cpu": "NaN", "team": "nlpp"}).context["form"].errors
    assert {*wrong, "cpu", "team"} == set(errors)
    assert "Line 1 is 'FOO'" in errors["environment"][0]
    assert "Line 3 is 'BAR'" in errors["environment"][0]
    only = signed_in.post(URL, {**FILLED, "labels": "x"}).context["form"].errors
    assert set(only) == {"labels"}
    assert not Workload.objects.exists()
