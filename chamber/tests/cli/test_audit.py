"""`chamber audit`, `export` and `verify`: against the whole application, and a file that is checked without it."""

import csv
import io
import json
from pathlib import Path

import pytest

from chamber.models import Scope, User
from chamber.tests.cli.conftest import Run
from chamber.tokens import create_token
from teams.actors import Actor, Via
from teams.audit import record
from teams.chain import sealing
from teams.models import AuditEvent, Role, Team
from teams.tests.chains import acts, unguarded
from teams.tests.factories import member


@pytest.fixture
def auditor(org: Team, monkeypatch: pytest.MonkeyPatch) -> User:
    """An auditor, whose token the command line has: its making is the first row."""
    user = member(org, Role.AUDITOR, "alma")
    _, secret = create_token(user=user, name="cli", scope=Scope.READ, days=1)
    monkeypatch.setenv("CHAMBER_TOKEN", secret)
    return user


@pytest.fixture
def acted(auditor: User, nlp: Team) -> list[AuditEvent]:
    return acts(nlp, 5)


def test_shows_the_newest_first_as_filters_say(
    run: Run, acted: list[AuditEvent], org: Team, auditor: User
) -> None:
    record(by=Actor.person(auditor, Via.API), action="team.renamed", target=org)
    assert run("audit").stdout.splitlines()[1].split()[2:6] == ["alma", "team.renamed", "team", "Acme"]
    for options, count in (
        (("--who", "alma"), 2),
        (("--what", "team.edited"), 5),
        (("--on", "NLP"), 5),
        (("--on", str(org.pk)), 1),
        (("--team", "nlp"), 5),
        (("--until", "2020-01-01"), 0),
        (("--address", "192.0.2.7"), 0),
        (("--limit", "2"), 2),
        (("--via", "system"), 5),
    ):
        result = run("audit", *options, "-o", "json")
        assert len(json.loads(result.stdout)) == count, options
    rows = list(csv.reader(io.StringIO(run("audit", "--what", "team", "-o", "csv").stdout)))
    assert (len(rows), rows[0][0]) == (7, "at")


def test_bad_filters_are_told(run: Run, auditor: User, ada: User) -> None:
    result = run("audit", "--address", "nowhere", "--since", "soon")
    assert result.exit_code == 6
    assert "address is 'nowhere'; give one such as 192.0.2.7 or 2001:db8::7." in result.stderr
    assert "since is 'soon'" in result.stderr
    assert run("audit", "--who", "alma", "verify").exit_code == 2


def test_who_reads_no_trail_is_refused(run: Run, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAMBER_TOKEN", create_token(user=ada, name="cli", scope=Scope.READ, days=1)[1])
    for words in (("audit",), ("audit", "export")):
        result = run(*words)
        assert (result.exit_code, "does not let you read the audit trail" in result.stderr) == (4, True), (
            words
        )


def test_an_export_is_verified_by_its_file(run: Run, acted: list[AuditEvent], tmp_path: Path) -> None:
    file = tmp_path / "trail.jsonl"
    assert run("audit", "export", str(file)).stderr == "Wrote 6 rows.\n"
    result = run("audit", "verify", str(file))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == [
        "The chain holds: 6 rows, from row 1 to row 6.",
        f"Head: {sealing.head_of(sealing.locked())}",
    ]
    assert "Signatures were not checked" in result.stdout
    key = tmp_path / "key"
    key.write_text("another\n")
    assert "6 rows signed with other keys" in run("audit", "verify", str(file), "--key-file", str(key)).stdout
    file.write_text(file.read_text().replace('"system"', '"page"', 1))
    result = run("audit", "verify", str(file), "--json")
    assert (result.exit_code, json.loads(result.stdout)["holds"]) == (1, False)
    assert run("audit", "verify", str(file)).stdout.startswith(
        f"The chain does not hold. Row 2 ({acted[0].pk}, line 3) was changed"
    )


def test_files_that_are_none_are_told(run: Run, auditor: User, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff")
    (tmp_path / "empty").write_text("")
    for words, status, sentence in (
        ((str(tmp_path / "picture"),), 1, "is no text: invalid start byte at byte 0."),
        ((str(tmp_path / "empty"),), 1, "It is no exported audit trail"),
        ((str(tmp_path / "none"),), 2, "cannot be read: No such file or directory."),
        ((str(tmp_path / "empty"), "--head", "7"), 2, "--head is '7'; give NUMBER:DIGEST"),
        (("--key-file", str(tmp_path / "empty")), 2, "--key-file is for a FILE"),
        ((str(tmp_path / "empty"), "--key-file", str(tmp_path / "empty")), 2, "has no key."),
    ):
        result = run("audit", "verify", *words)
        assert (result.exit_code, sentence in result.stderr) == (status, True), (words, result.stderr)


def test_the_database_is_verified_where_the_server_runs(run: Run, acted: list[AuditEvent]) -> None:
    result = run("audit", "verify")
    head = str(sealing.head_of(sealing.locked()))
    assert result.exit_code == 0
    assert result.stdout == f"The chain holds: 6 rows, from row 1 to row 6.\nHead: {head}\n"
    assert run("audit", "verify", "--head", head).exit_code == 0
    assert "written anew" in run("audit", "verify", "--head", f"6:{'0' * 64}").stdout
    with unguarded():
        AuditEvent.objects.filter(pk=acted[2].pk).update(actor="nobody")
    result = run("audit", "verify")
    assert result.exit_code == 1
    assert f"The chain does not hold. Row 4 ({acted[2].pk}) was changed after" in result.stdout
    assert "Up to row 3 it does." in result.stdout


def test_a_fault_is_accepted_where_the_server_runs(run: Run, acted: list[AuditEvent]) -> None:
    with unguarded():
        AuditEvent.objects.filter(pk__in=[acted[2].pk, acted[3].pk]).update(actor="nobody")
    asked = run("audit", "verify").stdout.splitlines()[-1]
    assert asked.startswith("Once you know why, accept it by: chamber audit accept 4:")
    words = ("audit", "accept", asked.split()[10], "--by", "olga", "--reason", "edited by hand")
    result = run(*words)
    assert (result.exit_code, result.stdout.startswith(f"Accepted: Row 4 ({acted[2].pk})")) == (1, True)
    assert f"Behind it the chain does not hold. Row 5 ({acted[3].pk})" in result.stderr
    again = run(*words)
    assert (again.exit_code, "The first fault is 5:" in again.stderr) == (5, True)
    name = json.loads(run("audit", "verify", "--json").stdout)["fault_name"]
    result = run("audit", "accept", name, "--by", "olga", "--reason", "edited by hand")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "Behind it the chain holds.")
    result = run("audit", "verify")
    assert result.exit_code == 0
    assert "2 known breaks:\n  Row 4" in result.stdout
    assert "Accepted by olga on" in result.stdout
    assert "because: edited by hand" in result.stdout
    assert run("audit", "accept", name, "--by", "olga", "--reason", "x").exit_code == 5
    result = run("audit", "accept", name, "--by", "olga", "--reason", " ")
    assert (result.exit_code, "The reason has 0 characters; 1 to 500" in result.stderr) == (2, True)
    assert run("audit", "accept", name, "--reason", "x").exit_code == 2
