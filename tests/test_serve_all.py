"""`chamber serve --part all`: one process on SQLite, without Redis, that schedules by itself."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx

from rig import deployment, processes, servers
from tests.waiting import until

KEY = "an-example-of-a-long-enough-key-0123456789"
PASSWORD = "a long enough phrase"


def environment(data: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CHAMBER_")}
    port = str(servers.free_port())
    return {**kept, "CHAMBER_DATA": str(data), "CHAMBER_SECRET_KEY": KEY, "CHAMBER_LISTEN_PORT": port}


def run(variables: dict[str, str], *words: str, text: str = "", status: int = 0) -> str:
    command = [sys.executable, "-m", "chamber.cli", *words]
    done = processes.run(command, env=variables, cwd=deployment.ROOT, text=text)
    assert done.returncode == status, done.stderr
    return done.stdout or done.stderr


def started(variables: dict[str, str], log: Path, *words: str) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        return processes.Popen(
            [sys.executable, "-m", "chamber.cli", *words],
            env=variables,
            cwd=deployment.ROOT,
            stdout=output,
            stderr=output,
        )


def answers(url: str, path: str) -> Callable[[], bool]:
    def found() -> bool:
        try:
            return httpx.get(url + path, timeout=30).status_code == 200
        except httpx.HTTPError:
            return False

    return found


def signed_in(url: str) -> httpx.Client:
    body = {"username": "olga", "password": PASSWORD, "name": "test", "scope": "admin"}
    token = httpx.post(f"{url}/api/v1/login/", json=body, timeout=60).json()["token"]
    return httpx.Client(base_url=f"{url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=60)


def test_a_new_installation_runs_its_first_workload(tmp_path: Path) -> None:
    variables = environment(tmp_path)
    url = f"http://127.0.0.1:{variables['CHAMBER_LISTEN_PORT']}"
    assert "Applied" in run(variables, "migrate")
    assert run(variables, "migrate") == "The database is up to date.\n"
    words = ("setup", "--organisation", "Acme", "--username", "olga", "--password-stdin")
    assert run(variables, *words, text=f"{PASSWORD}\n") == "Made Acme; olga is its admin.\n"
    again = run(variables, "setup", status=5)
    assert again == "Error: There is an organisation already; its admin adds people.\n", (
        "nothing is asked before"
    )
    server = started(variables, tmp_path / "server.log", "serve", "--part", "all")
    agent = None
    try:
        until(answers(url, "/readyz"))
        with signed_in(url) as api:
            agent = agent_of(api, tmp_path, {**variables, "CHAMBER_URL": url})
            pool = {"name": "Main", "slug": "main", "node_selector": {"pool": "main"}}
            assert api.post("pools/", json=pool).status_code == 201
            asked = {"name": "first", "team": "acme", "image": "x", "gpus": 1, "command": ["sleep", "1"]}
            answer = api.post("workloads/", json=asked)
            assert answer.status_code == 201, answer.text
            slug = answer.json()["slug"]
            until(lambda: api.get(f"workloads/{slug}/").json()["status"] == "completed")
    finally:
        for process in (agent, server):
            if process is not None:
                process.send_signal(signal.SIGTERM)
        status = server.wait(90)
        if agent is not None:
            agent.wait(90)
    assert status == 0
    assert "Traceback" not in (tmp_path / "server.log").read_text()


def agent_of(api: httpx.Client, folder: Path, variables: dict[str, str]) -> "subprocess.Popen[bytes]":
    """Connect a cluster and start its agent."""
    made = api.post("clusters/", json={"name": "east", "backend": "simulated"})
    assert made.status_code == 201, made.text
    (folder / "token").write_text(made.json()["token"])
    (folder / "nodes.json").write_text(json.dumps(deployment.nodes("east", 1)))
    options = ("--simulate", str(folder / "nodes.json"), "--token-file", str(folder / "token"))
    return started(variables, folder / "agent.log", "agent", *options)
