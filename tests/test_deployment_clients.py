"""Clients that ask too much, too fast, or never listen: refused, while the rest goes on."""

import socket
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import redis

from chamber.authentication import SIGN_IN_WINDOW_SECONDS
from rig.deployment import Deployment, ServiceProcess
from rig.organisation import PASSWORD
from tests.deployment_fixtures import becomes, started, submit
from tests.waiting import in_one_window

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.usefixtures("mended")]


def test_a_flood_of_sign_ins_is_answered_with_429_while_the_rest_goes_on(team: Deployment) -> None:
    over = threading.Event()
    began = time.time()

    def flood(number: int) -> list[int]:
        found = []
        with httpx.Client(base_url=team.web_url, timeout=60) as client:
            while not over.is_set():
                body = {"username": f"nobody-{number}", "password": "wrong"}
                found.append(client.post("/api/v1/login/", json=body).status_code)
        return found

    with ThreadPoolExecutor(12) as threads, team.api("rosa") as api:
        flooding = [threads.submit(flood, number) for number in range(12)]
        times = []
        try:
            for _ in range(40):
                asked = time.monotonic()
                assert api.get("me/").status_code == 200
                times.append(time.monotonic() - asked)
        finally:
            over.set()
        statuses = [status for one in flooding for status in one.result()]
    windows = time.time() // SIGN_IN_WINDOW_SECONDS - began // SIGN_IN_WINDOW_SECONDS + 1
    with redis.Redis.from_url(team.redis.url) as counters:
        for key in counters.scan_iter("*sign-in:*"):  # the next test is somebody else
            counters.delete(key)
    assert set(statuses) == {401, 429}
    assert statuses.count(401) <= 100 * windows
    assert sorted(times)[len(times) * 9 // 10] < 20


def test_a_client_that_never_reads_holds_up_nobody(team: Deployment) -> None:
    port = int(team.services["web"].environment["CHAMBER_LISTEN_PORT"])
    request = (
        f"GET /api/v1/schema/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {team.token('rosa')}\r\n\r\n"
    ).encode()
    lazy = []
    for _ in range(6):
        one = socket.create_connection(("127.0.0.1", port))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.sendall(request * 20)
        lazy.append(one)
    try:
        becomes(team, submit(team), "completed")
    finally:
        for one in lazy:
            one.close()


def test_who_signed_out_gets_no_part_from_any_process_that_had_one_for_him(team: Deployment) -> None:
    with httpx.Client(base_url=team.web_url, timeout=60) as pages:
        pages.get("/sign-in/")
        asked = {"login": "rosa", "password": PASSWORD}
        pages.post("/sign-in/", data={**asked, "csrfmiddlewaretoken": pages.cookies["csrftoken"]})
        cookies, session = dict(pages.cookies), {"Cookie": f"sessionid={pages.cookies['sessionid']}"}

        def part(_: int) -> int:
            # A connection of its own each: whichever process takes it up.
            return httpx.get(
                f"{team.web_url}/", headers={"X-Chamber-Fragment": "1", **session}, timeout=60
            ).status_code

        with ThreadPoolExecutor(8) as threads:
            assert set(threads.map(part, range(40))) == {200}
            answer = pages.post("/sign-out/", data={"csrfmiddlewaretoken": cookies["csrftoken"]})
            assert answer.status_code == 302
            assert set(threads.map(part, range(40))) == {302}


def test_connections_that_say_nothing_occupy_nobody(team: Deployment) -> None:
    port = int(team.services["web"].environment["CHAMBER_LISTEN_PORT"])
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
    try:
        # With a thread for each, five seconds long, this one's turn comes after a minute.
        assert httpx.get(f"{team.web_url}/livez", timeout=30).status_code == 200
    finally:
        for one in idle:
            one.close()


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "x" * 9000 + "\r\n\r\n", 431),
        ("GET /" + "x" * 9000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"X{n}: 1\r\n" for n in range(120)) + "\r\n", 431),
        ("nonsense\r\n\r\n", 400),
    ],
)
def test_a_request_beyond_its_bounds_is_refused(team: Deployment, request_text: str, status: int) -> None:
    port = int(team.services["web"].environment["CHAMBER_LISTEN_PORT"])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(request_text.encode())
        answered = client.recv(4096).decode(errors="replace")
    assert int(answered.split(" ")[1]) in {status, 400}


PUBLIC = "chamber.example.org"


def through_the_proxy(web: ServiceProcess, **headers: str) -> httpx.Client:
    """Return a client whose requests look as the proxy in front passes them on."""
    said = {"Host": PUBLIC, "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7", **headers}
    return httpx.Client(base_url=web.url, headers=said, timeout=60)


def test_behind_tls_people_sign_in_and_their_cookies_stay_on_tls(team: Deployment) -> None:
    settings = {"CHAMBER_TRUSTED_PROXIES": "127.0.0.1", "CHAMBER_HOSTS": PUBLIC}
    with started(team, "web", **settings) as web, through_the_proxy(web) as pages:
        form = pages.get("/sign-in/")
        cookie = form.headers["set-cookie"]
        token = cookie.split("csrftoken=")[1].split(";")[0]
        asked = {"login": "rosa", "password": PASSWORD, "csrfmiddlewaretoken": token}
        origin = {"Origin": f"https://{PUBLIC}", "Cookie": f"csrftoken={token}"}
        signed_in = pages.post("/sign-in/", data=asked, headers=origin)
        forged = pages.post("/sign-in/", data=asked, headers={**origin, "Origin": "https://evil.example"})
    assert "Secure" in cookie
    assert "max-age=2592000" in form.headers["strict-transport-security"]
    assert (signed_in.status_code, forged.status_code) == (302, 403)
    assert all("Secure" in cookie for cookie in signed_in.headers.get_list("set-cookie"))


def test_a_name_that_is_not_ours_is_refused(team: Deployment) -> None:
    with started(team, "web", CHAMBER_TRUSTED_PROXIES="127.0.0.1", CHAMBER_HOSTS=PUBLIC) as web:
        with through_the_proxy(web, Host="evil.example") as pages:
            assert pages.get("/sign-in/").status_code == 400
        with through_the_proxy(web, **{"X-Forwarded-Host": "evil.example"}) as pages:
            assert pages.get("/sign-in/").status_code == 200


def test_tries_to_sign_in_are_counted_by_the_address_that_the_proxy_names(team: Deployment) -> None:
    with started(team, "web", CHAMBER_TRUSTED_PROXIES="127.0.0.1", CHAMBER_HOSTS=PUBLIC) as web:

        def tried() -> list[int]:
            body, statuses = {"username": f"somebody-{uuid.uuid4().hex}", "password": "wrong"}, []
            for address in ["192.0.2.50"] * 11 + ["192.0.2.51", "192.0.2.50, 192.0.2.52"]:
                with through_the_proxy(web, **{"X-Forwarded-For": address}) as client:
                    statuses.append(client.post("/api/v1/login/", json=body).status_code)
            return statuses

        assert in_one_window(tried) == [401] * 10 + [429, 401, 401]
