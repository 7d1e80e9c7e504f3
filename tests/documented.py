"""The shell blocks of README and docs/, and a machine of its own, made of a folder, to run those for servers on."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rig import servers
from rig.deployment import ROOT

BLOCK = re.compile(r"^```(?:console|sh|bash|shell)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACES = (
    "/opt/chamber", "/etc/chamber", "/etc/nginx", "/etc/redis", "/etc/systemd/system", "/var/lib/chamber",
    "/var/backups/chamber", "/var/log/nginx", "/usr/local/bin",
)  # fmt: skip
"""Folders of the machine that the page for operators speaks of."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: the page it stands on, and its commands, without what they print."""

    page: str
    commands: tuple[str, ...]

    @property
    def name(self) -> str:
        """The page and the first command: stays the same when another block comes before it."""
        return f"{self.page}: {self.commands[0]}"


def blocks() -> list[Block]:
    """Return every shell block of README and docs/, in order; one without a command is an error."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = []
    for page in pages:
        for text in BLOCK.findall(page.read_text()):
            read = tuple(commands(text))
            assert read, f"{page.name} has a block without a line that begins with '$ ':\n{text}"
            found.append(Block(str(page.relative_to(ROOT)), read))
    return found


def commands(text: str) -> list[str]:
    """Return the lines after a prompt, each with those that a backslash continues it on."""
    found: list[str] = []
    goes_on = False
    for line in text.splitlines():
        if goes_on:
            found[-1] += f"\n{line}"
        elif line.startswith("$ "):
            found.append(line.removeprefix("$ "))
        else:
            continue
        goes_on = line.endswith("\\")
    return found


def run(
    block: Block, *, environment: Mapping[str, str], folder: Path, replaced: Mapping[str, str] | None = None
) -> str:
    """Run a block's commands in one shell that ends at the first failure; return what they printed.

    `replaced` is what the test's surroundings have instead: names that a server made up, prompts, addresses.
    """
    script = "\n".join(block.commands)
    for written, here in (replaced or {}).items():
        assert written in script, f"{block.name} has no {written!r}"
        script = script.replace(written, here)
    done = subprocess.run(
        ["bash", "-e", "-u", "-o", "pipefail", "-c", script],
        env=dict(environment),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


def script(path: Path, *lines: str) -> None:
    """Write a program for the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/bash", "set -eu", *lines, ""]))
    path.chmod(0o755)


AS_CHAMBER = "--reuid chamber --regid chamber --init-groups"

SYSTEMCTL = """
echo "$@" >> {calls}
[ "$1" = start ] || exit 0
for unit in "${{@:2}}"; do
    file={units}/$unit.service
    # What ends by itself is run here; the services are others' tests.
    if [ -f $file ] && grep --quiet ^Type=oneshot $file; then
        set -a; . {environment}; set +a
        $(sed --quiet s/^ExecStart=//p $file)
    fi
done
"""


class Machine:
    """A folder that stands for a machine's root: paths lead into it, and whoever needs a user of his own needs none."""

    def __init__(
        self, folder: Path, database: servers.PostgreSQL, redis: servers.Redis, password: str
    ) -> None:
        self.root, self.shims = folder / "root", folder / "shims"
        self.home = folder / "home"
        self._ports = {
            "127.0.0.1:5432": f"127.0.0.1:{database.port}",
            "127.0.0.1:6379": f"127.0.0.1:{redis.port}",
            "listen 80 ": f"listen 127.0.0.1:{servers.free_port()} ",
            "listen 443 ": f"listen 127.0.0.1:{servers.free_port()} ",
        }
        self.redis_port = redis.port
        self.calls = folder / "systemctl.log"
        self.home.mkdir()
        self._files()
        self._programs(database, password)

    @property
    def environment(self) -> dict[str, str]:
        """What a shell on the machine has."""
        program = servers.postgresql_folder()
        path = [str(self.shims), str(self.root / "usr/local/bin"), str(program), os.environ["PATH"]]
        return {"PATH": ":".join(path), "HOME": str(self.home), "PYTHONPATH": str(ROOT)}

    def here(self, text: str) -> str:
        """Return the text with the machine's paths and ports."""
        text = re.sub("|".join(PLACES), lambda found: f"{self.root}{found[0]}", text)
        for written, here in self._ports.items():
            text = text.replace(written, here)
        return text

    def run(self, block: Block, replaced: Mapping[str, str] | None = None) -> str:
        """Run a block on this machine."""
        mine = Block(block.page, tuple(self.here(command) for command in block.commands))
        return run(mine, environment=self.environment, folder=self.home, replaced=replaced)

    def _files(self) -> None:
        """Lay down what a package or a checkout brings."""
        for place in PLACES:
            if "chamber" not in place or place == "/opt/chamber":
                (self.root / place.lstrip("/")).mkdir(parents=True)
        (self.root / "etc/nginx/mime.types").symlink_to("/etc/nginx/mime.types")
        copied = self.root / "opt/chamber/deploy"
        shutil.copytree(ROOT / "deploy", copied, ignore=shutil.ignore_patterns("chart", "secrets", "tls"))
        for file in copied.rglob("*"):
            if file.is_file():
                file.write_text(self.here(file.read_text()))
        chamber = self.root / "opt/chamber/.venv/bin/chamber"
        script(chamber, f'exec {sys.executable} -m chamber.cli "$@"')

    def _programs(self, database: servers.PostgreSQL, password: str) -> None:
        """Stand in for what only root may, and for PostgreSQL's own user."""
        postgres = f"export PGHOST=127.0.0.1 PGPORT={database.port} PGUSER=postgres PGPASSWORD={password}"
        script(
            self.shims / "sudo",
            'if [ "$1" = -u ]; then',
            f'    [ "$2" = postgres ] && {postgres}',
            "    shift 2",
            "fi",
            'exec "$@"',
        )
        # What it does with a user who is there: `test_the_services_user_runs_a_command_itself`.
        script(self.shims / "setpriv", f'[ "${{*:1:6}}" = "{AS_CHAMBER} --" ]', "shift 6", 'exec "$@"')
        script(
            self.shims / "install",
            "words=()",
            'while [ $# -gt 0 ]; do case "$1" in --owner|--group) shift 2;; *) words+=("$1"); shift;; esac; done',
            'exec /usr/bin/install "${words[@]}"',
        )
        nginx = f"{servers.nginx_program()} -p {self.root} -c {self.root}/etc/nginx/nginx.conf"
        script(self.shims / "nginx", f'exec {nginx} -g "pid {self.root}/nginx.pid;" "$@"')
        script(
            self.shims / "systemctl",
            SYSTEMCTL.format(
                calls=self.calls,
                units=self.root / "etc/systemd/system",
                environment=self.root / "etc/chamber/environment",
            ),
        )
