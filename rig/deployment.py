"""A whole deployment on this machine: the very commands of `deploy/compose.yaml`, each as a local process.

    python -m rig.deployment          # starts everything with an agent, prints addresses and tokens, until interrupted

What differs from the compose file is the environment (addresses, folders, no TLS), never a command's words.
"""

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml

from rig import processes, servers

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = ROOT / "deploy" / "compose.yaml"
START_SECONDS = 120.0
STOP_SECONDS = 90.0
TOKEN_FILE, NODES_FILE, STATE_FILE = (
    "/run/secrets/agent_token",
    "/etc/chamber/nodes.json",
    "/var/lib/chamber/example.json",
)
Node = dict[str, Any]
TRUST = ssl.create_default_context()
"""What all clients trust: one that reads the authorities for itself takes ten times as long as what it asks."""
LIMITS = tuple(
    f"CHAMBER_LIMIT_{name}"
    for name in ("PERSON", "TOKEN", "ADDRESS", "ANONYMOUS", "PARTS", "SUBMISSIONS", "OPEN_WORKLOADS")
)
NO_LIMITS = dict.fromkeys(LIMITS, "0")
"""Whoever measures or tests asks for more than anybody should."""
USUAL_LIMITS = dict.fromkeys(LIMITS, "")


class DeploymentFailed(Exception):  # noqa: N818 - an outcome of the machine
    """A process did not come up; the message ends with its own last lines."""


def compose() -> dict[str, Any]:
    """Return the compose file as it stands."""
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return read


def nodes(name: str, count: int, *, gpus: int = 8, pool: str = "main", gpu_type: str = "H100") -> list[Node]:
    """Return `count` nodes with `gpus` devices each, as an agent reports them; `pool` is what their label says."""
    devices = [{"index": index, "gpu_type": gpu_type, "memory_mib": 81_920} for index in range(gpus)]
    return [
        {
            "name": f"{name}-{index}",
            "cpu_milli": gpus * 12_000,
            "memory_mib": gpus * 131_072,
            "labels": {"pool": pool, "zone": name},
            "devices": devices,
        }
        for index in range(count)
    ]


class ServiceProcess:
    """One process of the team, in a process group of its own."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> None:
        self.name, self.command, self.environment = name, list(command), dict(environment)
        self.log = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._asked_to_stop = False
        self._told = 0

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process, and of its group."""
        assert self.process is not None, f"{self.name} was never started"  # noqa: S101
        return self.process.pid

    @property
    def url(self) -> str:
        """Where the process listens, if it does."""
        return f"http://127.0.0.1:{self.environment.get('CHAMBER_LISTEN_PORT', '')}"

    def start(self, *, wait: bool = True) -> None:
        """Start the process; with `wait`, until it answers where it listens. Raises `DeploymentFailed`.

        One that runs is left alone, unless it was asked to stop: then the new one follows its end.
        """
        if self.running and not self._asked_to_stop:
            return
        self.stop()
        self._asked_to_stop = False
        program = [sys.executable, "-m", "chamber.cli"] if self.command[0] == "chamber" else [self.command[0]]
        with self.log.open("ab") as output:
            self.process = processes.Popen(
                [*program, *self.command[1:]],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=self.environment,
                cwd=ROOT,
                start_new_session=True,
            )
        if wait and "CHAMBER_LISTEN_PORT" in self.environment:
            self.wait_for("/livez")

    def wait_for(self, path: str, *, status: int = 200, seconds: float = START_SECONDS) -> None:
        """Wait until the process answers `path` with `status`; raise `DeploymentFailed`."""
        deadline, answered = time.monotonic() + seconds, ""
        while self.running and time.monotonic() < deadline:
            with suppress(httpx.HTTPError):
                answer = httpx.get(self.url + path, timeout=30, verify=TRUST)
                if answer.status_code == status:
                    return
                answered = f"{answer.status_code} {answer.text[:300]}"
            time.sleep(0.05)
        raise DeploymentFailed(
            f"{self.name} did not answer {path} with {status} but {answered!r}: {self.printed()[-1500:]}"
        )

    def printed(self) -> str:
        """Return all that the process wrote since the page was turned, over all its lives."""
        return self._written()[self._told :].decode(errors="replace")

    def turn_page(self) -> None:
        """Have `printed` leave out the lines that were written so far."""
        self._told = self._written().rfind(b"\n") + 1

    def _written(self) -> bytes:
        return self.log.read_bytes() if self.log.exists() else b""

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process itself, as a supervisor does."""
        if self.process is not None and self.running:
            self._asked_to_stop |= number in {signal.SIGTERM, signal.SIGINT}
            self.process.send_signal(number)

    def stop(self, *, seconds: float = STOP_SECONDS) -> int | None:
        """Stop it in order and return its exit status (None where it did not run); kill it after `seconds`."""
        if self.process is None:
            return None
        self.resume()
        self.send(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.returncode

    def kill(self) -> None:
        """Kill the process and its children at once, and wait until all are gone, as the end of a container does.

        A child that is still dying may listen yet, so that a new process would find the port taken.
        """
        self._signal_all(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
            while any(processes.of_group(self.process.pid)):
                time.sleep(0.01)

    def pause(self) -> None:
        """Stop its time: it neither runs nor ends."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._signal_all(signal.SIGCONT)

    def restart(self) -> None:
        """Stop it in order and start it again."""
        self.stop()
        self.start()

    def _signal_all(self, number: signal.Signals) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)


class Deployment:
    """The processes, and what is needed to talk to them."""

    def __init__(
        self,
        folder: Path,
        database: servers.PostgreSQL,
        redis: servers.Redis,
        environment: Mapping[str, str],
    ) -> None:
        self.folder, self.database, self.redis = folder, database, redis
        self._read = compose()
        self._given = dict(environment)
        self.environment = self._environment("web")
        self.services = {name: self._service(name) for name in ("web", "live", "worker", "scheduler", "beat")}
        self.agents: dict[str, ServiceProcess] = {}
        self._tokens: dict[str, str] = {}

    @property
    def web_url(self) -> str:
        """Where pages and API are."""
        return self.services["web"].url

    @property
    def live_url(self) -> str:
        """Where sockets, long polls and streams are."""
        return self.services["live"].url

    def token(self, username: str) -> str:
        """Return an API token of one of the demo's people; it may do all that they may."""
        return self._tokens[username]

    def api(self, username: str) -> httpx.Client:
        """Return a client of the API that is signed in as one of the demo's people."""
        headers = {"Authorization": f"Bearer {self.token(username)}"}
        return httpx.Client(base_url=f"{self.web_url}/api/v1/", headers=headers, timeout=60, verify=TRUST)

    def run(self, *arguments: str, text: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command of the project's Python with the deployment's environment, and return how it went."""
        return processes.run([sys.executable, *arguments], env=self.environment, cwd=ROOT, text=text)

    def migrate(self) -> None:
        """Run the one-shot service; raise `DeploymentFailed`."""
        command = self._read["services"]["migrate"]["command"]
        done = self.run("-m", "chamber.cli", *command[1:])
        if done.returncode != 0:
            raise DeploymentFailed(f"migrate ended with {done.returncode}: {done.stderr[-1500:]}")

    def make_organisation(self) -> None:
        """Make the demo's people, teams and pools, and a token of each person."""
        tokens = self.folder / "tokens.json"
        done = self.run("-m", "rig.organisation", str(tokens))
        if done.returncode != 0:
            raise DeploymentFailed(f"The organisation could not be made: {done.stderr[-1500:]}")
        self._tokens = json.loads(tokens.read_text())

    def start(self) -> None:
        """Start all services, then wait for those that listen."""
        for service in self.services.values():
            service.start(wait=False)
        for name in ("web", "live"):
            self.services[name].wait_for("/readyz")

    def stop(self) -> None:
        """Stop everything at once; whatever does not end in time is killed."""
        everything = [*self.agents.values(), *self.services.values()]
        for service in everything:
            service.resume()
            service.send(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for service in everything:
            service.stop(seconds=max(0.1, deadline - time.monotonic()))

    def add_agent(self, name: str, reported: Sequence[Node], *, start: bool = True) -> ServiceProcess:
        """Connect a cluster and start its agent, which simulates these nodes; its pods outlive the agent."""
        with self.api("otto") as api:
            pools = [pool["slug"] for pool in api.get("pools/").raise_for_status().json()["results"]]
            body = {"name": name, "backend": "simulated", "pools": pools}
            answer = api.post("clusters/", json=body)
        if answer.status_code != 201:
            raise DeploymentFailed(f"The cluster {name} could not be connected: {answer.text}")
        files = {
            TOKEN_FILE: self.folder / f"{name}.token",
            NODES_FILE: self.folder / f"{name}.json",
            STATE_FILE: self.folder / f"{name}.state",
        }
        files[TOKEN_FILE].write_text(answer.json()["token"])
        files[NODES_FILE].write_text(json.dumps(reported))
        command = [str(files.get(word, word)) for word in self._read["services"]["agent"]["command"]]
        environment = {**self._bare(), "CHAMBER_URL": self.live_url}
        agent = self.agents[name] = ServiceProcess(f"agent-{name}", command, environment, self.folder)
        if start:
            agent.start()
        return agent

    def _service(self, name: str) -> ServiceProcess:
        return ServiceProcess(
            name, self._read["services"][name]["command"], self._environment(name), self.folder
        )

    def _environment(self, name: str) -> dict[str, str]:
        """Return the service's environment as the file has it, with this machine's addresses and folders."""
        secrets = self.folder / "secrets"
        said = {
            key: _substitute(str(value)).replace("/run/secrets", str(secrets))
            for key, value in self._read["services"][name]["environment"].items()
        }
        here = {
            "CHAMBER_DATABASE": self.database.url,
            "CHAMBER_REDIS": self.redis.url,
            "CHAMBER_REDIS_PASSWORD_FILE": "",  # the URL has it
            "CHAMBER_DATA": str(self.folder),
            "CHAMBER_TRUSTED_PROXIES": "",  # nothing stands in front here, and nothing speaks TLS
            "CHAMBER_LISTEN_HOST": "127.0.0.1",
            "CHAMBER_METRICS_TOKEN_FILE": "",  # who scrapes is on this machine
        }
        if name in {"web", "live"}:
            here["CHAMBER_LISTEN_PORT"] = str(servers.free_port())
        return {**self._bare(), **said, **here, **NO_LIMITS, **self._given}

    def _bare(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CHAMBER_")}
        return {**kept, "DJANGO_SETTINGS_MODULE": "chamber.settings", "PYTHONUNBUFFERED": "1"}


def _substitute(text: str) -> str:
    """Return the text with `${NAME:-default}` as compose reads it where nothing is set, and `localhost` for a name that
    must be set.
    """
    required = re.sub(r"\$\{\w+:\?[^}]*\}", "localhost", text)
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", required)


@contextmanager
def running(
    database: servers.PostgreSQL | None = None,
    redis: servers.Redis | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    start: bool = True,
    organisation: bool = True,
) -> Iterator[Deployment]:
    """Run a migrated deployment with the demo's people inside the block, on these servers or on its own."""
    folder = Path(tempfile.mkdtemp(prefix="chamber-deployment-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        database = database or stack.enter_context(servers.postgresql())
        redis = redis or stack.enter_context(servers.redis(os.urandom(16).hex()))
        secrets = folder / "secrets"
        secrets.mkdir(mode=0o700)
        (secrets / "secret_key").write_text(os.urandom(32).hex())
        for name in ("database_password", "metrics_token"):
            (secrets / name).write_text(os.urandom(16).hex())
        team = Deployment(folder, database, redis, environment or {})
        stack.callback(team.stop)
        team.migrate()
        if organisation:
            team.make_organisation()
        if start:
            team.start()
        yield team


def main() -> int:
    """Start everything with one agent, print what is needed to use it, and wait to be interrupted."""
    with running() as team:
        team.add_agent("east", nodes("east", 8))
        print(f"web {team.web_url}, live {team.live_url}, logs in {team.folder}")
        print(f"database {team.database.url}, Redis {team.redis.url}")
        print(f"export CHAMBER_URL={team.web_url} CHAMBER_TOKEN={team.token('rosa')}", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
