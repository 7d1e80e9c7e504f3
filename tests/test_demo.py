"""The demo as a newcomer starts it: two words, one process, everything connected."""

import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from rig import processes
from rig.servers import free_port
from tests.conftest import CHAMBER, Demo, start_demo
from tests.waiting import in_one_window, until


def refused(*options: str) -> str:
    """Return the one sentence by which `chamber demo` refuses to start."""
    done = processes.run([*CHAMBER, "demo", *options], seconds=180)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_a_busy_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        sentence = refused("--port", str(port), "--data", str(tmp_path))
    assert f"cannot listen on 127.0.0.1 port {port}" in sentence
    assert "make demo PORT=" in sentence


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    folder = tmp_path / "file" / "data"
    assert f"cannot write its data to {folder}" in refused("--port", str(free_port()), "--data", str(folder))


def test_a_second_process_on_the_same_data_is_one_sentence(demo: Demo) -> None:
    sentence = refused("--port", str(free_port()), "--data", str(demo.data))
    assert "Another Chamber runs on the data in" in sentence


def test_three_agents_dial_in_and_bring_two_pools(demo: Demo) -> None:
    with demo.api("olga") as api:
        clusters = until(lambda: connected(api))
        assert sorted(cluster["name"] for cluster in clusters) == ["east", "lab", "west"]
        pools = {pool["slug"]: pool for pool in api.get("pools/").json()["results"]}
    assert set(pools) == {"main", "shared"}


def connected(api: httpx.Client) -> list[dict[str, Any]] | None:
    clusters: list[dict[str, Any]] = api.get("clusters/").json()["results"]
    return clusters if len(clusters) == 3 and all(cluster["connected"] for cluster in clusters) else None


def status_of(api: httpx.Client, slug: str) -> str:
    return str(api.get(f"workloads/{slug}/").json()["status"])


def submit(api: httpx.Client, **body: Any) -> str:
    answer = api.post("workloads/", json={"image": "demo/trainer:1", **body})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["slug"])


def test_a_workload_runs_from_submission_to_its_end(demo: Demo) -> None:
    with demo.api("rosa") as api:
        slug = submit(api, name="short", team="nlp", gpus=1, command=["sleep", "1"])
        until(lambda: status_of(api, slug) == "completed")
        events = api.get(f"workloads/{slug}/events/").json()["results"]
    told = [event["data"]["status"] for event in events if event["kind"] == "status"]
    assert told == ["queued", "starting", "running", "completed"]


def test_a_command_that_fails_is_failed_with_its_exit_code(demo: Demo) -> None:
    with demo.api("rosa") as api:
        slug = submit(api, name="bad", team="nlp", gpus=1, command=["sh", "-c", "sleep 1; exit 3"])
        until(lambda: status_of(api, slug) == "failed")
        attempts = api.get(f"workloads/{slug}/attempts/").json()["results"]
    assert [attempt["exit_code"] for attempt in attempts] == [3]


def test_an_address_that_somebody_made_up_buys_no_more_tries_to_sign_in(demo: Demo) -> None:
    def tried() -> list[int]:
        body = {"username": f"nobody-{uuid.uuid4().hex}", "password": "wrong"}
        return [
            httpx.post(
                f"{demo.url}/api/v1/login/",
                json=body,
                headers={"X-Forwarded-For": f"192.0.2.{number}"},
                timeout=60,
            ).status_code
            for number in range(11)
        ]

    assert in_one_window(tried) == [401] * 10 + [429]


def test_it_stops_on_ctrl_c_and_starts_again_on_the_same_data(tmp_path: Path) -> None:
    first = start_demo(tmp_path / "data", "--no-stream")
    with first.api("olga") as api:
        until(lambda: connected(api))
    with first.api("rosa") as api:
        slug = submit(api, name="long", team="nlp", gpus=1, command=["sleep", "600"])
        until(lambda: status_of(api, slug) == "running")
    assert "Stopped." in first.stop()
    assert first.process.returncode == 0
    second = start_demo(tmp_path / "data", "--no-stream")
    with second.api("rosa") as api:
        assert api.get(f"workloads/{slug}/").status_code == 200
    second.stop()
    third = start_demo(tmp_path / "data", "--no-stream", "--reset")
    with third.api("rosa") as api:
        assert api.get(f"workloads/{slug}/").status_code == 404
    third.stop()


@contextmanager
def agents_switch(demo: Demo) -> Iterator[Callable[[str], None]]:
    """Stop or start all simulated agents by the button of their clusters' pages, as an operator who is signed in."""
    with httpx.Client(base_url=demo.url, follow_redirects=True, timeout=60) as pages:
        pages.get("/sign-in/")
        form = {"login": "otto", "password": demo.passwords["otto"]}
        pages.post("/sign-in/", data={**form, "csrfmiddlewaretoken": pages.cookies["csrftoken"]})

        def switch(action: str) -> None:
            for name in ("east", "west", "lab"):
                data = {"action": action, "csrfmiddlewaretoken": pages.cookies["csrftoken"]}
                assert pages.post(f"/clusters/{name}/simulated-agent/", data=data).status_code == 200

        yield switch


def test_what_ends_and_what_is_cancelled_while_no_agent_runs_is_settled_when_one_does(demo: Demo) -> None:
    with demo.api("rosa") as api, agents_switch(demo) as switch:
        stays = submit(api, name="stays", team="nlp", gpus=1, command=["sleep", "600"])
        until(lambda: status_of(api, stays) == "running")
        ends = submit(api, name="ends", team="nlp", gpus=1, command=["sleep", "12"])
        until(lambda: status_of(api, ends) == "running")
        switch("stop")
        time.sleep(13)
        assert status_of(api, ends) == "running", "nobody can have reported its end"
        assert api.post(f"workloads/{stays}/cancel/").status_code == 200
        late = submit(api, name="late", team="nlp", gpus=1, command=["sleep", "1"])
        switch("start")
        until(lambda: status_of(api, ends) == status_of(api, late) == "completed")
        until(lambda: released(api, stays))


def released(api: httpx.Client, slug: str) -> bool:
    attempts = api.get(f"workloads/{slug}/attempts/").json()["results"]
    return all(attempt["released_at"] is not None for attempt in attempts)
