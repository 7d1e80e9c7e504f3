"""`chamber version`: of the command line, the server and the agents; with one place where it stands."""

import json
import re
import tomllib
from pathlib import Path

import yaml
from django.test import Client
from django.utils import timezone
from packaging.version import Version

from agentlink import protocol
from agentlink.tests.factories import make_cluster
from chamber import __version__
from chamber.models import User
from chamber.tests.cli.conftest import PASSWORD, SERVER, Run

ROOT = Path(__file__).resolve().parents[3]
LOGIN = ("login", "--username", "ada", "--password-stdin")


def test_it_names_command_line_server_and_agents(run: Run, ada: User) -> None:
    run(*LOGIN, stdin=f"{PASSWORD}\n")
    make_cluster("east", agent_version="0.1.0")
    make_cluster("new")
    make_cluster("west", agent_version="0.1.0", connected=False, released_at=timezone.now())

    assert (
        run("version").stdout.count("(released)") == run("version").stdout.count("west 0.1.0 (released)") == 1
    )
    result = run("version", "-o", "json")

    assert json.loads(result.stdout) == {
        "client": __version__,
        "server": __version__,
        "url": SERVER,
        "protocol": protocol.VERSION,
        "agents": {"east": "0.1.0", "west": "0.1.0"},
        "released": ["west"],
    }


def test_without_a_sign_in_it_is_the_command_line_s_own(run: Run, ada: User) -> None:
    result = run("version")

    assert (result.exit_code, result.stdout) == (0, f"Command line  {__version__}\n")
    assert "You are not signed in" in result.stderr


def test_it_need_ask_nobody(run: Run) -> None:
    result = run("version", "--client")

    assert (result.stdout, result.stderr) == (f"Command line  {__version__}\n", "")


def test_the_api_tells_it_to_who_is_signed_in_only(client: Client, ada: User) -> None:
    assert client.get("/api/v1/version/").status_code == 401
    client.force_login(ada)
    assert client.get("/api/v1/version/").json()["version"] == __version__


def test_it_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "chamber.__version__"}
    chart = yaml.safe_load((ROOT / "deploy/chart/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_changelog_has_a_heading_for_each_version_and_the_next_one_above() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0].startswith(f"{__version__} - ")
    released = [heading for heading in headings if heading != "Unreleased"]
    assert released
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", heading) for heading in released)
    numbers = [Version(heading.split(" ")[0]) for heading in released]
    assert numbers == sorted(numbers, reverse=True)
    mine = Version(__version__)
    assert numbers[0] < mine if headings[0] == "Unreleased" else numbers[0] == mine
