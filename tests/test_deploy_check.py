"""What Django itself finds unwise in the settings of a production install: nothing."""

import os
import sys
from pathlib import Path

from rig import processes

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "deploy/systemd/environment"
SECRETS = {
    "secret_key": "Zx8v-an-example-of-fifty-and-more-characters-7Qp2m",
    "database_password": "of-the-test-alone",
    "redis_password": "of-the-test-alone",
    "metrics_token": "of-the-test-alone",
}


def installed(folder: Path) -> dict[str, str]:
    """Return the environment that is shipped for systemd, with secrets of its own, and of this process nothing."""
    lines = [line for line in SHIPPED.read_text().splitlines() if line and not line.startswith("#")]
    environment = dict(line.split("=", 1) for line in lines)
    for name, value in environment.items():
        if name.endswith("_FILE"):
            file = folder / Path(value).name
            file.write_text(SECRETS[file.name])
            environment[name] = str(file)
    return {**environment, "CHAMBER_DATA": str(folder), "PATH": os.defpath}


def checked(environment: dict[str, str]) -> tuple[int, str]:
    """Return the status of Django's check of a deployment, and what it says."""
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = processes.run(command, cwd=ROOT, env=environment, seconds=120)
    return done.returncode, done.stdout + done.stderr


def test_the_settings_of_a_production_install_have_nothing_unwise(tmp_path: Path) -> None:
    status, said = checked(installed(tmp_path))
    assert status == 0, said
    assert "no issues (2 silenced)" in said


def test_a_deployment_without_tls_is_told_so(tmp_path: Path) -> None:
    status, said = checked({**installed(tmp_path), "CHAMBER_TLS": "0"})
    assert status == 1
    assert "security.W012" in said  # cookies of sessions that go unencrypted
