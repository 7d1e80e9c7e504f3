"""`chamber people`: letting people in and putting them out from the command line."""

import json
from pathlib import Path

import pytest
from allauth.socialaccount.models import SocialAccount
from pytest_django.fixtures import Settings

from chamber.cli.status import Exit
from chamber.models import Scope, User
from chamber.people.actions import use_link
from chamber.tests.cli.conftest import Run
from chamber.tests.factors.conftest import with_app
from chamber.tokens import create_token
from teams.models import AuditEvent, Binding, Role, Team
from teams.tests.factories import make_team, make_user, member

PHRASE = "rotor glade mosaic 41"


@pytest.fixture
def olga(org: Team, monkeypatch: pytest.MonkeyPatch, run: Run) -> User:
    user = member(org, Role.ORG_ADMIN, "olga", password=PHRASE)
    monkeypatch.setenv("CHAMBER_TOKEN", create_token(user=user, name="x", scope=Scope.ADMIN, days=1)[1])
    return user


def test_a_person_is_added_gets_in_by_the_link_and_is_put_out_and_let_in(
    olga: User, run: Run, nlp: Team
) -> None:
    added = run(
        "people", "add", "ada", "--name", "Ada Lovelace", "--team", "nlp", "--role", "researcher", "-o", "csv"
    )
    assert added.exit_code == 0, added.stderr
    link = next(word for word in added.stdout.replace(",", " ").split() if "/welcome/" in word)
    ada = use_link(secret=link.rstrip("/").rpartition("/")[2], password=PHRASE)
    create_token(user=ada, name="laptop", scope=Scope.READ, days=1)
    listed = run("people", "list", "--state", "active", "-o", "name").stdout.split()
    assert listed == ["ada", "olga"]
    done = run("people", "disable", "ada")
    assert done.stdout == (
        "ada is disabled. Sessions ended: 0; tokens: 1; open workloads left as they are: 0.\n"
    )
    assert run("people", "disable", "ada").exit_code == Exit.CONFLICT
    assert run("people", "enable", "ada").exit_code == 0
    assert "/welcome/" in run("people", "reset", "ada").stdout
    assert run("people", "sessions", "ada").stderr == "ada is signed in nowhere.\n"
    assert "researcher of nlp" in run("people", "show", "ada").stdout


def test_to_whom_no_mail_could_be_sent_is_said(
    olga: User, run: Run, nlp: Team, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MAIL = True
    ada = ["people", "add", "ada", "--email", "ada@example.org", "--team", "nlp", "--role", "viewer"]
    assert "(mailed)" in run(*ada).stdout
    monkeypatch.setattr("chamber.mailing.send", lambda _: False)
    again = run("people", "reset", "ada")
    assert "/welcome/" in again.stdout
    assert again.stderr == (
        "The mail to ada@example.org could not be sent: hand the link over. The server's log says why.\n"
    )
    assert run("people", "reset", "ada", "--no-mail").stderr == ""


def test_many_are_added_from_a_csv_and_the_refused_are_named(
    olga: User, run: Run, nlp: Team, tmp_path: Path
) -> None:
    file = tmp_path / "people.csv"
    file.write_text(
        "username,name,team,role\nada,Ada Lovelace,nlp,researcher\nBad Name,,,\n,Cleo,,\nbob,,nlp,viewer\n"
        "eve,,nlp,viewer,7\n"
    )
    added = run("people", "add", "--from-csv", str(file), "-o", "name")
    assert added.exit_code == Exit.REJECTED
    assert added.stdout.split() == ["ada", "bob"]
    assert "Line 3, Bad Name: 'Bad Name' is no user name" in added.stderr
    assert "Line 4, without a user name: There is no user name." in added.stderr
    assert "Line 6, eve: There are more values than columns: 7." in added.stderr
    assert Binding.objects.filter(team=nlp).count() == 2


def test_a_csv_may_be_separated_by_semicolons(olga: User, run: Run, nlp: Team, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("username;name;team;role\r\nada;Lovelace, Ada;nlp;viewer\r\n")
    assert run("people", "add", "--from-csv", str(file), "-o", "name").stdout.split() == ["ada"]
    assert str(User.objects.get(username="ada")) == "Lovelace, Ada"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"username,age\nada,36\n", "There is a column 'age' in"),
        (b"name,email\nAda,\n", "There is no column 'username' in"),
        (b"", "There is no column 'username' in"),
        (b"username,name\nada,Ad\xe9\n", "is not in UTF-8 (byte 21); save it as CSV in UTF-8"),
    ],
)
def test_a_csv_that_is_not_understood_adds_nobody(
    olga: User, run: Run, tmp_path: Path, text: bytes, says: str
) -> None:
    file = tmp_path / "people.csv"
    file.write_bytes(text)
    added = run("people", "add", "--from-csv", str(file))
    assert added.exit_code == Exit.USAGE
    assert says in added.stderr
    assert User.objects.count() == 1


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("add",), Exit.USAGE, "Give a user name"),
        (("add", "ada", "--mail"), Exit.REJECTED, "sends no mail"),
        (("add", "ada", "--role", "viewer"), Exit.REJECTED, "or neither"),
        (("add", "ada", "--team", "nix", "--role", "viewer"), Exit.NOT_FOUND, "'nix'"),
        (("disable", "nobody"), Exit.NOT_FOUND, "'nobody'"),
        (("disable", "olga"), Exit.CONFLICT, "themselves"),
        (("disable", "x", "--cancel", "--hand-over-to", "y"), Exit.USAGE, "contradict"),
        (("enable", "olga"), Exit.CONFLICT, "not disabled"),
        (("sessions", "olga", "--end", "987654"), Exit.NOT_FOUND, "987654"),
    ],
)
def test_what_cannot_be_done_is_said_with_its_status(
    olga: User, run: Run, words: tuple[str, ...], status: Exit, says: str
) -> None:
    done = run("people", *words)
    assert (done.exit_code, says in done.stderr) == (status, True), done.stderr


def test_an_admin_sees_who_lacks_a_second_factor_and_removes_one_that_is_lost(
    olga: User, ada: User, run: Run
) -> None:
    with_app(ada)

    assert run("people", "list", "--without-factor", "-o", "name").stdout.split() == ["olga"]
    assert "yes" in run("people", "show", "ada").stdout
    listed = run("people", "factors", "ada", "-o", "csv").stdout
    assert "app,Authenticator app" in listed
    assert "recovery-codes,Recovery codes" in listed
    assert run("people", "factors", "ada", "--reset").exit_code == 0
    assert run("people", "factors", "ada").stderr == "ada has no second factor.\n"
    assert run("people", "factors", "ada", "--reset").exit_code == Exit.CONFLICT


def test_by_which_providers_somebody_signs_in_is_listed_and_taken_away(olga: User, run: Run) -> None:
    ada = make_user("ada")
    SocialAccount.objects.create(user=ada, provider="acme", uid="00a1", extra_data={"groups": ["gpu-users"]})
    assert "acme,00a1,gpu-users" in run("people", "providers", "ada", "-o", "csv").stdout
    done = run("people", "providers", "ada", "--unlink", "acme")
    assert (done.exit_code, done.stdout) == (0, "ada does not sign in by acme any more.\n")
    assert run("people", "providers", "ada").stderr == "ada signs in by no provider.\n"
    gone = run("people", "providers", "ada", "--unlink", "acme")
    assert gone.exit_code == Exit.NOT_FOUND
    assert "There is no account at an identity provider 'acme'" in gone.stderr


def test_what_is_kept_about_a_person_is_written_to_a_file(
    olga: User, run: Run, ada: User, tmp_path: Path
) -> None:
    file = tmp_path / "ada.json"
    assert run("people", "export", "ada", str(file)).exit_code == 0
    assert json.loads(file.read_text())["profile"]["username"] == "ada"
    assert json.loads(run("people", "export", "olga").stdout)["complete"]
    refused = run("people", "export", "nobody", str(tmp_path / "none.json"))
    assert refused.exit_code == Exit.NOT_FOUND
    assert not (tmp_path / "none.json").exists()


def test_roles_are_given_and_taken(nlp: Team, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    ada, lena = member(nlp, Role.VIEWER, "ada"), member(nlp, Role.LEAD, "lena")
    make_team(nlp, "Speech")
    secret = create_token(user=lena, name="x", scope=Scope.MANAGE, days=1)[1]
    monkeypatch.setenv("CHAMBER_TOKEN", secret)
    assert run("people", "role", "ada", "nlp", "researcher").stdout == "ada is researcher of nlp.\n"
    taken = run("people", "role", "ada", "nlp", "researcher", "--remove")
    assert taken.stdout == "ada is no longer researcher of nlp.\n"
    assert list(Binding.objects.filter(user=ada).values_list("role", flat=True)) == ["viewer"]
    above = run("people", "role", "ada", "speech", "viewer", "--remove")
    assert (above.exit_code, "by the team nlp above it" in above.stderr) == (Exit.NOT_FOUND, True)
    never = run("people", "role", "ada", "nlp", "lead", "--remove")
    assert (never.exit_code, "ada is not lead of nlp." in never.stderr) == (Exit.NOT_FOUND, True)
    assert run("people", "role", "ada", "nlp", "admin").exit_code == Exit.NOT_ALLOWED
    assert run("people", "role", "nobody", "nlp", "viewer").exit_code == Exit.REJECTED
    rows = AuditEvent.objects.filter(action__startswith="member.").order_by("at")
    assert list(rows.values_list("action", "via")) == [("member.added", "cli"), ("member.removed", "cli")]
