"""The proxy of `deploy/`, run for real: TLS outside; sockets and long polls to the live part, the rest to the web."""

import asyncio
import json
import re
import shlex
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect, sync_playwright
from websockets.asyncio.client import connect

from rig import deployment, servers
from rig.deployment import Deployment, ServiceProcess
from rig.organisation import PASSWORD
from tests.deployment_fixtures import started, submit
from tests.proxies import proxied
from tests.test_browser import ARGUMENTS
from tests.waiting import PATIENCE_MS, until

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.nginx]
TRUSTED = {"CHAMBER_TRUSTED_PROXIES": "127.0.0.1/32"}


@pytest.fixture(scope="module")
def ports(team: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Nginx before a web and a live process that believe it; its ports for HTTP and HTTPS."""
    folder = tmp_path_factory.mktemp("nginx")
    found = servers.free_port(), servers.free_port()
    with (
        started(team, "web", **TRUSTED) as web,
        started(team, "live", **TRUSTED) as live,
        proxied(folder, ports=found, web=[web], live=[live]),
    ):
        until(lambda: answers(found[1]), seconds=180)
        yield found


def answers(port: int) -> bool:
    with browser(port) as client, suppress(httpx.HTTPError):
        return client.get("/livez").status_code == 200
    return False


def browser(port: int) -> httpx.Client:
    return httpx.Client(base_url=f"https://localhost:{port}", verify=False, timeout=60)  # noqa: S501 - its own


def test_a_person_signs_in_over_tls_with_cookies_that_only_tls_carries(ports: tuple[int, int]) -> None:
    with browser(ports[1]) as client:
        form = client.get("/sign-in/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form.text)
        assert token is not None
        body = {"csrfmiddlewaretoken": token[1], "login": "rosa", "password": PASSWORD}
        answer = client.post("/sign-in/", data=body, headers={"Origin": f"https://localhost:{ports[1]}"})
        assert answer.status_code == 302, answer.text
        cookies = answer.headers.get_list("set-cookie")
        own = [cookie for cookie in cookies if cookie.startswith("__Host-sessionid=")]
        assert [part for part in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/") if part not in own[0]] == []
        assert "Domain" not in own[0]
        page = client.get("/")
        assert client.get("/welcome/nothing/").status_code == 410
    assert page.status_code == 200
    assert "max-age=" in page.headers["strict-transport-security"]


def test_every_answer_says_once_that_its_type_is_what_it_says(ports: tuple[int, int]) -> None:
    with browser(ports[1]) as client:
        for path in ("/metrics", "/sign-in/"):  # answered by the proxy itself, and by Chamber
            assert client.get(path).headers.get_list("x-content-type-options") == ["nosniff"]


def test_every_answer_says_once_that_tls_alone_is_spoken(ports: tuple[int, int]) -> None:
    with browser(ports[1]) as client:
        for path in ("/metrics", "/sign-in/"):  # answered by the proxy itself, and by Chamber
            told = client.get(path).headers.get_list("strict-transport-security")
            assert told == ["max-age=2592000; includeSubDomains"], path


def test_a_flood_of_passwords_is_answered_in_a_sentence_and_who_only_looks_is_not_counted(
    ports: tuple[int, int],
) -> None:
    with browser(ports[1]) as client:
        assert {client.get("/sign-in/").status_code for _ in range(70)} == {200}
        bodies = {"/api/v1/login/": "application/problem+json", "/sign-in/": "text/plain; charset=utf-8"}
        for path, kind in bodies.items():
            with ThreadPoolExecutor(16) as pool:
                answers = list(pool.map(lambda _, path=path: client.post(path, data={}), range(140)))
            refused = [answer for answer in answers if answer.headers["Content-Type"] == kind]
            cut = [answer for answer in refused if answer.status_code == 429 and "Very many" in answer.text]
            assert cut, "nginx let all of them through"
            assert cut[0].headers["Retry-After"] == "5"
            assert "Try again in 5 seconds." in cut[0].text
            assert cut[0].headers.get_list("strict-transport-security") == [
                "max-age=2592000; includeSubDomains"
            ]
        ended = {client.post("/sign-in/with/acme/ended/").status_code for _ in range(5)}
        assert ended == {404}, "there is no such provider, which Chamber itself says"


def test_the_log_has_no_secret_of_a_link(
    ports: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = "x7" * 20
    asked = [f"/welcome/{secret}/", f"/sign-in/forgotten/1-{secret}/", f"/sign-in/address/{secret}/"]
    asked += [
        f"/sign-in/with/acme/back/?code={secret}&state=y",
        "/teams/?under=nlp",
        "/sign-in/forgotten/sent/",
    ]
    with browser(ports[1]) as client:
        for path in asked:
            client.get(path)
    log = until(lambda: _logged(tmp_path_factory, "GET /sign-in/forgotten/sent/ HTTP"), seconds=60)
    assert secret not in log
    for told in ("GET /welcome/... ", "GET /sign-in/with/acme/back/?... ", "GET /teams/?under=nlp "):
        assert told in log


@pytest.mark.parametrize("file", ["nginx.conf", "chart/files/nginx.conf"])
def test_requests_with_secrets_are_in_no_error_log_while_a_part_is_away(file: str) -> None:
    text = (deployment.ROOT / "deploy" / file).read_text()
    (block,) = re.findall(r"location ~ \^/\(sign-in/\|welcome/\) \{(.*?)\n        \}", text, re.DOTALL)
    assert re.search(r"^ *error_log /\S+ crit;$", block, re.MULTILINE)
    assert "error_page 502 504 @away;" in block
    (away,) = re.findall(r"location @away \{(.*?)\n        \}", text, re.DOTALL)
    assert "add_header Referrer-Policy no-referrer always;" in away


def _logged(folders: pytest.TempPathFactory, last: str) -> str:
    """Return the log of nginx once it has a line; an empty text before."""
    log = "".join(path.read_text() for path in folders.getbasetemp().glob("nginx*/access.log"))
    return log if last in log else ""


@pytest.mark.parametrize(
    ("ciphers", "taken"),
    [("ECDHE-RSA-AES128-GCM-SHA256", True), ("ECDHE-RSA-AES128-SHA256", False), ("AES128-GCM-SHA256", False)],
)
def test_old_ciphers_are_refused(ports: tuple[int, int], ciphers: str, taken: bool) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    with socket.create_connection(("127.0.0.1", ports[1]), timeout=60) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as tls:
                assert tls.version() == "TLSv1.2"
            spoken = True
        except ssl.SSLError:
            spoken = False
    assert spoken is taken


def test_plain_http_is_sent_to_https(ports: tuple[int, int]) -> None:
    answer = httpx.get(f"http://localhost:{ports[0]}/teams/", timeout=60)
    assert (answer.status_code, answer.headers["location"]) == (308, "https://localhost/teams/")


def test_metrics_are_not_for_outside(ports: tuple[int, int]) -> None:
    with browser(ports[1]) as client:
        assert client.get("/metrics").status_code == 404


def test_one_id_goes_through_and_comes_back_and_one_that_is_malformed_is_replaced(
    ports: tuple[int, int],
) -> None:
    with browser(ports[1]) as client:
        for path in ("/readyz", "/metrics"):  # answered by Chamber, and by the proxy itself
            kept = client.get(path, headers={"X-Request-ID": "cause-7"})
            assert kept.headers.get_list("x-request-id") == ["cause-7"]
        made = client.get("/readyz", headers={"X-Request-ID": "two words"}).headers.get_list("x-request-id")
        other = client.get("/readyz").headers.get_list("x-request-id")
    assert [len(made), len(other)] == [1, 1]
    assert re.fullmatch("[0-9a-f]{32}", made[0])
    assert made != other


def test_the_id_that_the_proxy_makes_is_the_one_that_chamber_knows_the_request_by(
    ports: tuple[int, int],
) -> None:
    with browser(ports[1]) as client:
        for path in ("/api/v1/me/", "/api/v1/workloads/x/watch/"):  # answered by web, and by live
            answer = client.get(path)
            assert answer.status_code == 401
            assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_the_chart_s_proxy_makes_logs_and_passes_on_an_id_in_the_same_lines() -> None:
    def lines(file: str) -> list[str]:
        text = (deployment.ROOT / "deploy" / file).read_text()
        stripped = [line.strip() for line in text.splitlines()]
        about = [line for line in stripped if "request_id" in line.lower() or "request-id" in line.lower()]
        return list(dict.fromkeys(about))  # what nginx answers by itself says it once more

    assert lines("nginx.conf") == lines("chart/files/nginx.conf")
    assert len(lines("nginx.conf")) == 7


def test_a_long_poll_reaches_the_live_part(ports: tuple[int, int]) -> None:
    with browser(ports[1]) as client:
        answer = client.post("/agent/v1/sync", json=[], headers={"Authorization": "Bearer nobody"})
    assert answer.status_code == 401
    assert answer.json()[0]["code"] == "not-authorised"


def test_a_socket_reaches_the_live_part(ports: tuple[int, int]) -> None:
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE

    async def heard() -> str:
        url = f"wss://localhost:{ports[1]}/ws/agent/"
        headers = {"Authorization": "Bearer nobody"}
        async with connect(url, ssl=unverified, additional_headers=headers, open_timeout=60) as socket:
            return str(await socket.recv())

    assert "not-authorised" in asyncio.run(heard())


@pytest.fixture
def visited(ports: tuple[int, int]) -> Iterator[Callable[[str], Page]]:
    """Open a browser's page through the proxy, signed in as somebody."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)

        def visit(username: str) -> Page:
            context = running.new_context(base_url=f"https://localhost:{ports[1]}", ignore_https_errors=True)
            context.set_default_timeout(PATIENCE_MS)
            page = context.new_page()
            page.goto("/sign-in/")
            page.get_by_label("User name").fill(username)
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in", exact=True).click()
            expect(page.locator("#live-status")).to_have_text("Live")
            return page

        yield visit
        running.close()


@pytest.mark.chromium
def test_an_open_page_follows_a_workload_through_all_processes(
    team: Deployment,
    visited: Callable[[str], Page],
) -> None:
    page = visited("rosa")
    slug = submit(team, name="followed", command=["sleep", "3"])
    page.goto(f"/workloads/{slug}/")
    page.evaluate("window.neverReloaded = true")
    expect(page.locator("#workload")).to_contain_text("Completed")
    assert page.evaluate("window.neverReloaded") is True


@pytest.mark.chromium
def test_a_cluster_is_connected_by_the_printed_command_and_its_page_turns_green_at_the_agent_s_hello(
    team: Deployment,
    visited: Callable[[str], Page],
    tmp_path: Path,
) -> None:
    page = visited("otto")
    page.goto("/clusters/connect/")
    page.get_by_label("Name").fill("north")
    page.get_by_label("Backend").select_option("simulated")
    page.get_by_role("button", name="Connect").click()
    expect(page.locator("#cluster")).to_contain_text("Waiting for its agent")
    token, nodes = tmp_path / "north.token", tmp_path / "nodes.json"
    token.write_text(page.locator("#agent-token").inner_text())
    nodes.write_text(json.dumps(deployment.nodes("north", 1, pool="nobody's")))
    words = shlex.split(page.locator("#agent-commands").inner_text())
    here = {
        "north.token": str(token),
        "nodes.json": str(nodes),
        words[words.index("--url") + 1]: team.live_url,
    }
    agent = ServiceProcess(
        "agent-north", [here.get(word, word) for word in words], team.environment, tmp_path
    )
    page.evaluate("window.neverReloaded = true")
    agent.start(wait=False)
    try:
        expect(page.locator("#cluster .status-ok")).to_have_text("Connected")
        expect(page.locator("#cluster")).to_contain_text("north-0")
        assert page.evaluate("window.neverReloaded") is True
    finally:
        agent.stop()
