"""`chamber credentials`: values come from prompts, files and standard input, and never from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from chamber.cli.commands import credentials
from chamber.models import User
from chamber.tests.cli.conftest import Run
from teams.models import Role, Team
from teams.tests.factories import member
from workloads.credentials import keys
from workloads.credentials.kinds import PARTS
from workloads.models import Credential, CredentialKind

MARKER = "m4rker-value-that-nobody-else-writes"


@pytest.fixture(autouse=True)
def _key(run: Run, settings: Settings, ada: User, become: Callable[..., str]) -> None:
    settings.CREDENTIALS_KEYS = ["a-key-for-credentials-of-tests-0123456789"]
    become(ada)


def test_the_tables_are_those_of_the_server() -> None:
    parts = {kind.value: PARTS[kind] for kind in CredentialKind}
    assert credentials.SHOWN.keys() == parts.keys()
    for kind, names in credentials.SHOWN.items():
        plain = {part.name for part in parts[kind] if not part.secret}
        assert plain - {"variables"} == set(names)
    for kind, asked in credentials.ASKED.items():
        assert {part.name for part in parts[kind] if part.secret and part.required} == set(asked)


def test_a_token_is_read_from_standard_input_and_not_printed(run: Run) -> None:
    result = run("credentials", "add", "hf", "--type", "token", stdin=f"{MARKER}\n")
    assert result.exit_code == 0, result.output
    assert MARKER not in result.output
    assert keys.opened(Credential.objects.get()) == {"token": MARKER}
    assert json.loads(run("credentials", "show", "hf", "-o", "json").stdout)["parts"] == ["token"]
    assert "hf" in run("credentials", "list").stdout


def test_several_values_come_from_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "s3.yaml"
    path.write_text(f"access_key_id: AK1\nsecret_access_key: {MARKER}\n")
    arguments = ("add", "data", "--type", "s3", "--set", "region=eu-1", "--from", str(path))
    assert run("credentials", *arguments).exit_code == 0
    row = Credential.objects.get()
    assert (row.details, row.parts) == ({"region": "eu-1"}, ["access_key_id", "secret_access_key"])
    path.write_text(f"access_key_id: AK2\nsecret_access_key: {MARKER}-2\n")
    assert run("credentials", "replace", "data", "--from", str(path)).exit_code == 0
    row.refresh_from_db()
    assert keys.opened(row) == {"access_key_id": "AK2", "secret_access_key": f"{MARKER}-2"}
    assert row.details == {"region": "eu-1"}


def test_variables_and_files(run: Run, tmp_path: Path) -> None:
    arguments = ("add", "db", "--type", "variables", "--from", "-")
    assert run("credentials", *arguments, stdin=f"DB_PASSWORD: {MARKER}\n").exit_code == 0
    path = tmp_path / "key.json"
    path.write_text(MARKER)
    assert run("credentials", "add", "gcp", "--type", "files", "--file", str(path)).exit_code == 0
    opened = {row.name: keys.opened(row) for row in Credential.objects.all()}
    assert opened == {
        "db": {"variables": {"DB_PASSWORD": MARKER}},
        "gcp": {"files": {"key.json": MARKER}},
    }


def test_a_teams_is_named_with_it(run: Run, nlp: Team, become: Callable[..., str]) -> None:
    result = run("credentials", "add", "nlp/hf", "--type", "token", stdin=MARKER)
    assert (result.exit_code, "manage credentials in NLP" in result.stderr) == (4, True)
    become(member(nlp, Role.LEAD))
    assert run("credentials", "add", "nlp/hf", "--type", "token", stdin=MARKER).exit_code == 0
    assert Credential.objects.get().reference == "nlp/hf"
    assert run("credentials", "delete", "nlp/hf").stdout == "Deleted nlp/hf.\n"
    assert run("credentials", "show", "nlp/hf").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--type", "token", "--set", "token=x"), "Secrets are asked for, or read by --from."),
        (("--type", "s3"), "Give access_key_id and secret_access_key by --from FILE"),
        (("--type", "files"), "Give the files by --file."),
        (("--type", "variables"), "Give the variables by --from FILE"),
        (("--type", "s3", "--from", "-"), "is not YAML in line 1."),
        (("--type", "git", "--set", "server"), "--set is 'server'; it must be NAME=VALUE."),
    ],
)
def test_what_is_wrong_is_told_and_no_secret_with_it(run: Run, arguments: tuple[str, ...], told: str) -> None:
    result = run("credentials", "add", "x", *arguments, stdin=f"a: [{MARKER}")
    assert result.exit_code == 2
    assert told in result.stderr
    assert MARKER not in result.output
