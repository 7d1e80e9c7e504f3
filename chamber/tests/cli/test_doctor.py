"""`chamber doctor` as a process: what it prints, and its exit status."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chamber.cli.commands.doctor import doctor
from rig import processes
from rig.migrated import FILE, copy_of
from rig.namespaces import Namespace

ROOT = Path(__file__).resolve().parents[3]


def run(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CHAMBER_")}
    good = {"CHAMBER_DATA": str(folder), "CHAMBER_SECRET_KEY": "k3V9xq-0Zr7LwYt2mB8pQf5sJd1HnUc6E"}
    return processes.run(
        [sys.executable, "-m", "chamber.cli", *arguments], env={**kept, **good, **environment}, cwd=ROOT
    )


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> Path:
    """A folder with a SQLite database of this version."""
    folder = tmp_path_factory.mktemp("data")
    copy_of(run_folder / "migrated", folder / FILE)
    return folder


def test_findings_are_sentences_with_advice_and_status_1(migrated: Path) -> None:
    done = run(migrated, "doctor")
    assert done.returncode == 1
    assert done.stdout.startswith(
        "duties: Nobody has carried out a duty yet.\n  Start `chamber serve --part all`.\n"
        "scheduler: Nobody has run a cycle yet.\n  Start `chamber serve --part all`.\n"
        "credentials: There is no key for credentials: none can be made before there is one.\n"
        "disk: The database takes "
    )
    assert done.stdout.endswith(
        "address: The address that people use is not known here; set CHAMBER_PUBLIC_URL to have it looked at.\n"
        "mail: No mail server is named (CHAMBER_MAIL_URL): links are shown instead of mailed.\n"
        "audit: The audit trail's chain was not checked yet; a duty does within a minute.\n"
    )
    assert done.stderr == ""


def test_programs_are_told_in_json(migrated: Path) -> None:
    done = run(migrated, "doctor", "--json", CHAMBER_DEBUG="1")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert told["well"] is False
    assert [found["check"] for found in told["findings"]] == ["debug", "duties", "scheduler"]
    assert "channel-layer" in told["made"]
    assert (told["left_out"], told["lacks"]) == ([], {})
    assert [fact["check"] for fact in told["facts"]] == ["disk", "address", "mail", "audit"]


def test_settings_that_cannot_be_read_are_a_finding(tmp_path: Path) -> None:
    done = run(tmp_path, "doctor", CHAMBER_DATABASE="mysql://db/chamber")
    assert done.returncode == 1
    assert done.stdout.startswith("settings: CHAMBER_DATABASE begins with 'mysql'; allowed is ")


def test_what_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    done = run(tmp_path / "missing", "doctor")
    assert done.returncode == 1
    assert "database: The database does not answer: unable to open database file." in done.stdout
    assert "Not looked at, for want of the database: migrations," in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--kubeconfig", "/nowhere"], "--kubeconfig is for --cluster."),
        (["--node-selector", "a=b", "--json"], "--node-selector is for --cluster."),
        (["--cluster", "--token-file", "/nowhere/token"], "/nowhere/token cannot be read"),
        (["--cluster", "--node-selector", "a==b=c"], "'a==b=c' selects nothing"),
        (["--cluster", "--namespace", "Team_A"], "'Team_A' is no name of a namespace"),
    ],
)
def test_options_that_do_not_fit_are_a_usage_error(arguments: list[str], sentence: str) -> None:
    done = CliRunner().invoke(doctor, arguments)
    assert done.exit_code == 2
    assert sentence in done.stderr


def test_a_cluster_that_cannot_be_reached_with_what_there_is_is_a_finding(tmp_path: Path) -> None:
    done = CliRunner().invoke(doctor, ["--cluster", "--kubeconfig", str(tmp_path / "missing")])
    assert done.exit_code == 1
    assert done.stdout.startswith("access: ")
    assert "--kubeconfig" in done.stdout


@pytest.mark.kube
def test_a_cluster_is_told_of_in_sentences_and_in_json(namespace: Namespace, tmp_path: Path) -> None:
    cluster = ["--cluster", "--kubeconfig", str(namespace.kubeconfig), "--node-selector", namespace.selector]

    def doctor_of(*arguments: str) -> Result:
        return CliRunner().invoke(doctor, [*cluster, *arguments])

    done = doctor_of()
    assert (done.exit_code, done.stderr) == (1, "")
    said = f"nodes: No node has the labels {namespace.selector}.\n  Label the nodes"
    assert f"\n{said}" in f"\n{done.stdout}"
    namespace.add_nodes(1)
    done = doctor_of("--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["well"]) == ((1, False) if told["findings"] else (0, True))
    # The doctor tries bound namespaces, too, and other tests have theirs in the same control plane.
    of_others = rf"A workload's (Job|pods) would be refused in the namespace (?!{namespace.name}:)"
    assert [each for each in told["findings"] if not re.match(of_others, each["problem"])] == []
    token = tmp_path / "token"
    token.write_text("cha_x")
    done = doctor_of("--url", "http://127.0.0.1:1", "--token-file", str(token))
    assert done.exit_code == 1
    assert "\nserver: The server http://127.0.0.1:1 cannot be reached" in f"\n{done.stdout}"
