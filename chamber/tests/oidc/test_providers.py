"""Providers as an operator names them: typed, and refused with sentences."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from chamber.doctor import providers as doctor
from chamber.doctor.finding import DoctorFinding, Fact
from chamber.oidc.providers import Provider, read
from chamber.tests.oidc.conftest import Configure
from chamber.tests.oidc.idp import Idp
from teams import actions
from teams.actors import Actor
from teams.models import Role, Team

GOOD: dict[str, Any] = {
    "id": "acme",
    "name": "Acme SSO",
    "issuer": "https://id.acme.example/realms/acme",
    "client_id": "chamber",
    "client_secret": "a secret",
}


def written(*providers: dict[str, Any]) -> str:
    return yaml.safe_dump(list(providers))


def test_providers_are_read_with_what_is_not_said() -> None:
    one, two = read(
        written(GOOD, {**GOOD, "id": "other", "name": "Other", "scopes": ["openid", "offline_access"]})
    )
    assert (one.secret, one.groups_claim, one.syncs_every, one.link_by_email) == (
        "a secret",
        "groups",
        0,
        False,
    )
    assert two.syncs_every == 60, "where it is asked for a token that outlives the session there"
    assert read("") == read("  \n") == ()
    assert "a secret" not in repr(one)


def test_a_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("of the file\n")
    values = {key: value for key, value in GOOD.items() if key != "client_secret"}
    [found] = read(written({**values, "client_secret_file": str(file)}))
    assert found.secret == "of the file"


def test_a_token_of_scim_may_lie_in_a_file_and_is_judged_like_one_that_does_not(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a token of thirty-two characters\n")
    [found] = read(written({**GOOD, "scim_token_file": str(file)}))
    assert (found.scim_token, found.secret, found.provisions) == (
        "a token of thirty-two characters",
        "a secret",
        True,
    )
    file.write_text("short")
    with pytest.raises(SystemExit) as stop:
        read(written({**GOOD, "scim_token_file": str(file)}))
    assert "scim_token has 5 characters" in str(stop.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("acme", "it must be a list of providers"),
        ("[", "it is no YAML (line"),
        ("- 3", "provider 1: it is 3; it must be a mapping"),
        (written({**GOOD, "issue": 1}), "provider 1 (acme): There is no field 'issue'."),
        (written({"id": "acme"}), "name is missing. issuer is missing. client_id is missing."),
        (written({**GOOD, "id": "Acme/1"}), "id is 'Acme/1'; 1 to 30 small letters"),
        (written({**GOOD, "issuer": "id.acme.example"}), "it must be the provider's URL"),
        (written({**GOOD, "issuer": "http://id.acme.example"}), "it must begin with https://"),
        (written({**GOOD, "allowed_domains": ["@acme.example"]}), "is no domain of e-mail addresses"),
        (written({**GOOD, "scopes": ["email"]}), "scopes must have 'openid'"),
        (written({**GOOD, "sync_minutes": 1441}), "at most 1,440 is allowed"),
        (written({**GOOD, "link_by_email": "perhaps"}), "it must be true or false"),
        (written({**GOOD, "client_authentication": "none"}), "'none' is not allowed"),
        (written({**GOOD, "client_secret_file": "/nowhere"}), "not both"),
        (written({**GOOD, "client_secret": "", "client_secret_file": "/nowhere"}), "is no readable file"),
        (written({**GOOD, "scim_token": "x" * 31}), "scim_token has 31 characters; the least is 32"),
        (written({**GOOD, "scim_token": "x" * 32, "scim_token_file": "/nowhere"}), "not both"),
        (written({**GOOD, "scim_token_file": "/nowhere"}), "scim_token_file is no readable file"),
        (written(GOOD, {**GOOD, "name": "x"}), "the id 'acme' comes twice"),
        (written(GOOD, {**GOOD, "id": "x"}), "the name 'Acme SSO' comes twice"),
    ],
)
def test_what_cannot_be_is_a_sentence(text: str, words: str) -> None:
    with pytest.raises(SystemExit) as stop:
        read(text)
    assert str(stop.value).startswith("CHAMBER_IDENTITY_PROVIDERS cannot be used: ")
    assert words in str(stop.value)


def test_no_secret_is_told() -> None:
    with pytest.raises(SystemExit) as stop:
        read(written({**GOOD, "client_secret": ["a secret of a list"]}))
    assert "a secret" not in str(stop.value)
    with pytest.raises(SystemExit) as stop:
        read(written({**GOOD, "client_secret": "x" * 2000}))
    assert "xxx" not in str(stop.value)
    with pytest.raises(SystemExit) as stop:
        read(written({**GOOD, "scim_token": "xxx"}))
    assert "xxx" not in str(stop.value)


def test_doctor_asks_each_provider(idp: Idp, provider: Provider) -> None:
    [fact] = doctor.answers()
    assert isinstance(fact, Fact)
    assert fact.sentence == (
        "The identity provider acme answers and has 1 key; people are signed out there as well."
    )
    idp.discovery = {"issuer": "https://elsewhere.example"}
    [finding] = doctor.answers()
    assert isinstance(finding, DoctorFinding)
    assert "says that it is the issuer" in finding.problem
    idp.away = True
    [finding] = doctor.answers()
    assert isinstance(finding, DoctorFinding)
    assert "answers 503" in finding.problem


@pytest.mark.django_db
def test_doctor_finds_roles_of_a_provider_that_is_gone(
    configure: Configure, nlp: Team, settings: Any
) -> None:
    configure()
    actions.set_provider_role(
        by=Actor.system("test"), provider="acme", name="gpu", team=nlp, role=Role.VIEWER
    )
    assert list(doctor.roles()) == []
    settings.IDENTITY_PROVIDERS = ()
    [finding] = doctor.roles()
    assert "'acme' give roles, but it is not configured" in finding.problem
