"""Slices of GPUs the whole way: a cluster tells of them, pages show them apart, workloads get them by name."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from rig import processes
from tests.conftest import CHAMBER, Demo, migrated_folder, start_demo
from tests.test_browser import Visitor, browser
from tests.test_demo import status_of, submit
from tests.waiting import until

__all__ = ["browser"]

ROOT = Path(__file__).parent.parent
SMALL, LARGE = "mig-1g.10gb", "mig-3g.40gb"
SLICES = [
    *({"index": index, "gpu_type": SMALL, "slicing": "mig", "share_milli": 143} for index in range(7)),
    *({"index": index, "gpu_type": LARGE, "slicing": "mig", "share_milli": 429} for index in (7, 8)),
]


@pytest.fixture(scope="module")
def sliced(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> Iterator[Demo]:
    """A demo whose main pool has nine slices of GPUs in a fourth cluster, beside 100 GPUs in two others."""
    folder = tmp_path_factory.mktemp("sliced")
    demo = start_demo(migrated_folder(folder / "data", run_folder), "--no-stream")
    agent: subprocess.Popen[bytes] | None = None
    try:
        with demo.api("olga") as api:
            made = until(lambda: new_cluster(api))
        nodes = [{"name": "cut-0", "labels": {"pool": "main", "zone": "cut"}, "devices": SLICES}]
        (folder / "nodes.json").write_text(json.dumps(nodes))
        (folder / "token").write_text(made["token"])
        options = ("--url", demo.url, "--token-file", folder / "token", "--simulate", folder / "nodes.json")
        with (folder / "agent.log").open("wb") as log:
            agent = processes.Popen[bytes](
                [*CHAMBER, "agent", *map(str, options)], stdout=log, stderr=log, cwd=ROOT
            )
        with demo.api("olga") as api:
            until(lambda: api.get("nodes/?cluster=cut").json()["results"])
        yield demo
    finally:
        if agent is not None:
            agent.terminate()
            agent.wait(timeout=60)
        printed = demo.stop()
    assert "Traceback" not in printed, printed


def new_cluster(api: httpx.Client) -> dict[str, Any] | None:
    """Return the cluster as it was made; None where the server is too busy to make it now."""
    answer = api.post("clusters/", json={"name": "cut", "backend": "simulated", "pools": ["main"]})
    if answer.status_code == 503:
        return None
    assert answer.is_success, answer.text
    made: dict[str, Any] = answer.json()
    return made


def devices_of(api: httpx.Client) -> list[dict[str, Any]]:
    """Return the devices in use in the cluster of slices."""
    (node,) = api.get("nodes/?cluster=cut").json()["results"]
    return [device for device in node["devices"] if device["allocated"]]


def test_the_api_tells_slices_apart(sliced: Demo) -> None:
    with sliced.api("olga") as api:
        (cluster,) = [row for row in api.get("clusters/").json()["results"] if row["name"] == "cut"]
        pools = {row["pool"]: row for row in api.get("pools-figures/").json()["results"]}
    assert (cluster["gpus"], cluster["slices"], cluster["slice_gpus"]) == (0, 9, 1.859)
    main = pools["main"]
    assert (main["capacity"], main["slices"], main["slice_gpus"]) == (101.859, 9, 1.859)


def test_pods_that_ask_for_more_than_one_slice_are_refused(sliced: Demo) -> None:
    body = {"name": "two", "team": "nlp", "image": "demo/trainer:1", "gpus": 2, "gpu_types": [SMALL]}
    with sliced.api("rosa") as api:
        answer = api.post("workloads/", json=body)
    assert answer.status_code == 422, answer.text
    assert "ask for 2 pods of 1 GPU each" in answer.json()["errors"]["gpus"]


def test_a_workload_that_names_slices_runs_on_them_one_a_pod(sliced: Demo) -> None:
    with sliced.api("rosa") as api:
        slug = submit(api, name="sweep", team="nlp", pods=4, gpu_types=[SMALL], command=["sleep", "600"])
        until(lambda: status_of(api, slug) == "running")
        devices = devices_of(api)
        assert [(device["gpu_type"], device["allocated"]) for device in devices] == [(SMALL, 0.143)] * 4
        workload = api.get(f"workloads/{slug}/").json()
        assert (workload["slices"], workload["total_gpus"]) == (4, 0.572)
        (attempt,) = api.get(f"workloads/{slug}/attempts/").json()["results"]
        assert attempt["gpus"] == 0.572
        api.post(f"workloads/{slug}/cancel/")
        until(lambda: not devices_of(api))


def test_a_workload_that_names_no_type_takes_no_slice(sliced: Demo) -> None:
    with sliced.api("rosa") as api:
        body = {"name": "all", "team": "nlp", "image": "demo/trainer:1", "pods": 101}
        assert "has 100 GPUs" in api.post("workloads/", json=body).json()["errors"]["pods"]
        fits = submit(api, name="fits", team="nlp", pods=8, gpus=1, command=["sleep", "600"])
        until(lambda: status_of(api, fits) == "running")
        assert devices_of(api) == []
        api.post(f"workloads/{fits}/cancel/")


@pytest.mark.chromium
@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True)])
def test_pages_show_gpus_and_slices_apart_and_fit(
    sliced: Demo, browser: Browser, width: int, dark: bool
) -> None:
    visit = Visitor(sliced, browser)
    page = visit("olga", "/pools/main/", width=width, dark=dark)
    expect(page.locator("#pool dl.stats")).to_contain_text("100 GPUs and 9 slices worth 1.859 GPUs")
    expect(page.locator(".node", has_text="cut-0").locator(".device-slice")).to_have_count(9)
    for address, words in (
        ("/", "(100 GPUs and 9 slices worth 1.859 GPUs)"),
        ("/pools/", "and 9 slices worth 1.859 GPUs"),
        ("/clusters/cut/", "9 slices"),
        (
            "/workloads/submit/",
            "one to a pod, only by name: mig-1g.10gb (0.143 GPUs), mig-3g.40gb (0.429 GPUs)",
        ),
    ):
        page.goto(address)
        expect(page.locator("main")).to_contain_text(words)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
    visit.leave()
    assert visit.complaints == []
