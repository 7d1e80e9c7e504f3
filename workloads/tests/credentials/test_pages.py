"""The pages of credentials: what is typed is kept but for secrets, which no page shows."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django.fixtures import Settings

from chamber.models import User
from teams.models import Role, Team
from teams.tests.factories import actor, member
from workloads.credentials import keys
from workloads.credentials.actions import create_credential
from workloads.models import Credential, CredentialKind
from workloads.tests.credentials.conftest import CONTENTS, MARKER

LIST = "/settings/credentials/"


@pytest.fixture
def browser(client: Client, owner: User) -> Client:
    client.force_login(owner)
    return client


def fields(kind: str) -> dict[str, Any]:
    return {name: typed(name, value) for name, value in CONTENTS[kind].items()}


def typed(name: str, value: Any) -> Any:
    if name == "files":
        return [SimpleUploadedFile(each, text.encode()) for each, text in value.items()]
    return "\n".join(f"{key}={text}" for key, text in value.items()) if isinstance(value, dict) else value


@pytest.mark.parametrize("kind", CredentialKind)
def test_each_kind_has_a_form_that_makes_it(browser: Client, kind: CredentialKind) -> None:
    page = browser.get(LIST, {"type": kind.value}).content.decode()
    for name in CONTENTS[kind]:
        assert f'name="{name}"' in page
    answer = browser.post(LIST, {"name": "it", "type": kind.value, "team": "", **fields(kind)})
    assert answer.headers["Location"] == "/settings/credentials/own/it/"
    row = Credential.objects.get()
    assert {**row.details, **keys.opened(row)} == CONTENTS[kind]
    for address in (LIST, "/settings/credentials/own/it/"):
        shown = browser.get(address).content.decode()
        assert MARKER not in shown
    assert browser.post("/settings/credentials/own/it/", fields(kind)).status_code == 302


def test_what_is_refused_keeps_what_was_typed_but_for_secrets(browser: Client) -> None:
    answer = browser.post(
        LIST, {"name": "Bad name", "type": "token", "variable": "HF_TOKEN", "token": MARKER}
    )
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "is no name of a credential" in page
    assert 'value="Bad name"' in page
    assert 'value="HF_TOKEN"' in page
    assert MARKER not in page
    answer = browser.post(LIST, {"name": "db", "type": "variables", "variables": f"A={MARKER}\n{MARKER}"})
    assert "data-secret" in answer.content.decode(), "the browser keeps none where the session ended"
    assert "Line 2 has no =; write NAME=value on each line." in answer.content.decode()
    assert MARKER not in answer.content.decode()


def test_sentences_call_the_parts_as_the_form_does(browser: Client) -> None:
    answer = browser.post(LIST, {"name": "a", "type": "s3", "access_key_id": MARKER})
    assert "Secret access key is missing." in answer.content.decode()


def test_it_is_told_what_pods_get(browser: Client, owner: User) -> None:
    content = {"token": MARKER}
    create_credential(by=actor(owner), name="hf-token", kind=CredentialKind.TOKEN, content=content)
    assert "HF_TOKEN" in browser.get("/settings/credentials/own/hf-token/").content.decode()


def test_a_file_that_is_no_text_is_refused_with_its_name(browser: Client) -> None:
    file = SimpleUploadedFile("key.bin", b"\xff\xfe")
    answer = browser.post(LIST, {"name": "f", "type": "files", "files": [file]})
    assert "key.bin&#x27; is no text; encode it as base64 first." in answer.content.decode()


def test_a_teams_are_shown_to_who_submits_there_and_changed_by_its_leads(
    client: Client, browser: Client, team: Team
) -> None:
    lead = member(team, Role.LEAD, "lena")
    create_credential(
        by=actor(lead), name="hf", kind=CredentialKind.TOKEN, content=CONTENTS["token"], team=team
    )
    address = "/settings/credentials/of/nlp/hf/"
    page = browser.get(address).content.decode()
    assert "Replace" not in page
    assert browser.post(address, {"token": "x"}).status_code == 403
    assert "nlp/hf" in browser.get(LIST, {"team": "nlp"}).content.decode()
    client.force_login(lead)
    assert "Replace" in client.get(address).content.decode()
    assert client.post(f"{address}delete/").headers["Location"] == LIST
    assert not Credential.objects.exists()


def test_without_a_key_the_page_says_who_makes_one(browser: Client, settings: Settings) -> None:
    settings.CREDENTIALS_KEYS, settings.GIVEN_SECRET_KEY = [], "x" * 40
    assert "This server has no key that encrypts credentials" in browser.get(LIST).content.decode()
