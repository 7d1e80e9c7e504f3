"""Ask for known vulnerabilities of what the lock files name, by pip-audit; fail also where that cannot be known."""

import subprocess
import sys
from pathlib import Path

PIP_AUDIT = "pip-audit==2.10.1"
FILES = ("requirements.txt", "requirements-dev.txt")
SERVICES = ("pypi", "osv")
FOUND = " known vulnerabilit"
"""What pip-audit's table is headed by, and nothing else that it says."""


def audited(file: str, service: str) -> "subprocess.CompletedProcess[str]":
    """Run pip-audit on one file. Without `--strict` it passes over what it could not look up, as if all were well."""
    uv = Path(sys.executable).with_name("uv")
    options = [
        "--strict",
        "--no-deps",
        "--disable-pip",
        "--progress-spinner",
        "off",
        "--vulnerability-service",
        service,
    ]
    command = [
        str(uv),
        "tool",
        "run",
        "--quiet",
        "--from",
        PIP_AUDIT,
        "pip-audit",
        *options,
        "--requirement",
        file,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - of the constants above


def told(file: str, service: str, done: "subprocess.CompletedProcess[str]") -> str:
    """Return what to say of a run: its table, or one sentence."""
    if done.returncode == 0:
        return f"{file}: no known vulnerabilities."
    if FOUND in done.stderr:
        return f"{file}: {done.stderr.strip().splitlines()[-1]}.\n{done.stdout.rstrip()}"
    last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1].removeprefix("ERROR:pip_audit._cli:")
    return (
        f"{file}: whether it has known vulnerabilities cannot be told: {service} did not answer for all of it.\n"
        f"pip-audit ended with: {last}\n"
        f"Run this where {' or '.join(SERVICES)} can be reached; SERVICE= chooses."
    )


def main() -> int:
    """Say it of each file; return the status to end with."""
    service = sys.argv[1] if len(sys.argv) > 1 else SERVICES[0]
    if service not in SERVICES:
        sys.stderr.write(f"SERVICE is {service!r}; allowed is {' or '.join(SERVICES)}.\n")
        return 2
    status = 0
    for file in FILES:
        done = audited(file, service)
        (sys.stderr if done.returncode else sys.stdout).write(told(file, service, done) + "\n")
        status = max(status, done.returncode)
    return status


if __name__ == "__main__":
    sys.exit(main())
