"""The main job in a real browser, as a researcher and as an admin; pages change without a reload."""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.conftest import Demo
from tests.test_demo import connected, status_of, submit
from tests.waiting import PATIENCE_MS, until

pytestmark = pytest.mark.chromium

PHRASE = "rotor glade mosaic 41"
LEFT_EARLY = "WebSocket is closed before the connection is established"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(autouse=True)
def _empty_pools(demo: Demo) -> Iterator[None]:
    """Every test begins with all GPUs free: what the last one left is cancelled and gone."""
    with demo.api("olga") as api:
        until(lambda: connected(api))
        yield
        for status in ("pending", "queued", "starting", "running"):
            for row in api.get("workloads/", params={"status": status, "limit": 500}).json()["results"]:
                api.post(f"workloads/{row['slug']}/cancel/")
        until(lambda: all(device_is_free(node) for node in api.get("nodes/").json()["results"]), seconds=60)


def device_is_free(node: dict[str, object]) -> bool:
    devices = node["devices"]
    assert isinstance(devices, list)
    return all(device["occupied"] == 0 for device in devices)


@pytest.fixture
def visit(demo: Demo, browser: Browser) -> Iterator["Visitor"]:
    visitor = Visitor(demo, browser)
    try:
        yield visitor
        assert visitor.complaints == []
    finally:
        visitor.leave()


class Visitor:
    """Opens pages signed in as somebody, and notes what the browser's console complains about.

    Each person signs in by the form once; later pages have the cookies of that.
    """

    def __init__(self, demo: Demo, browser: Browser) -> None:
        self.demo, self.browser = demo, browser
        self.complaints: list[str] = []
        self._contexts: list[BrowserContext] = []

    def __call__(self, username: str, path: str = "/", *, width: int = 1440, dark: bool = False) -> Page:
        context = self.browser.new_context(
            base_url=self.demo.url,
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            storage_state=self.demo.sessions.get(username),
        )
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        if username not in self.demo.sessions:
            self._sign_in(page, username)
            self.demo.sessions[username] = context.storage_state()
        page.goto(path)
        return page

    def leave(self) -> None:
        """Close all pages: one that stays open follows every change of the tests after it."""
        for context in self._contexts:
            context.close()

    def _sign_in(self, page: Page, username: str) -> None:
        page.goto("/sign-in/")
        page.get_by_label("User name").fill(username)
        page.get_by_label("Password").fill(self.demo.passwords.get(username, "chamber-demo"))
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.wait_for_url(self.demo.url + "/")

    def _hear(self, message: ConsoleMessage) -> None:
        """Keep what the browser complains of; a page that is left before its socket is open is no fault."""
        if message.type in ("error", "warning") and LEFT_EARLY not in message.text:
            self.complaints.append(message.text)


def reason_of(api: httpx.Client, slug: str) -> str:
    reason = api.get(f"workloads/{slug}/explain/").json()["reason"]
    return str(reason["code"]) if reason else ""


def status_badge(page: Page, word: str) -> None:
    expect(page.locator(".title .status")).to_have_text(re.compile(word))


def test_a_researcher_submits_by_form_and_watches_it_through_its_life(visit: Visitor) -> None:
    page = visit("rosa", "/workloads/submit/")
    page.get_by_label("Name", exact=False).first.fill("my first")
    page.get_by_label("Image").fill("demo/trainer:1")
    page.get_by_label("Command").fill("sleep 4")
    page.get_by_role("main").get_by_role("button", name="Submit").click()
    expect(page).to_have_url(re.compile(r"/workloads/my-first-\w+/"))
    page.evaluate("window.untouched = true")
    status_badge(page, "Running|Completed")  # a slow machine may miss the four seconds between
    status_badge(page, "Completed")
    assert page.evaluate("window.untouched"), "the page was reloaded"
    for word in ("Pending", "Queued", "Starting", "Running"):
        expect(page.get_by_role("img", name=word).or_(page.get_by_text(word)).first).to_be_visible()


@pytest.fixture
def guest(demo: Demo) -> Iterator[str]:
    """Somebody new who is a researcher of NLP and signs in as the others; disabled at the end."""
    name = f"guest{time.monotonic_ns()}"
    with demo.api("olga") as api:
        made = api.post(
            "people/", json={"username": name, "team": "nlp", "role": "researcher", "mail": False}
        )
        with httpx.Client(base_url=demo.url, follow_redirects=True, timeout=60) as browser:
            page = browser.get(made.json()["url"])
            token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
            assert token
            words = {"password1": PHRASE, "password2": PHRASE, "csrfmiddlewaretoken": token[1]}
            assert browser.post(page.url, data=words).status_code == 200
        demo.passwords[name] = PHRASE
        yield name
        api.post(f"people/{name}/disable/", json={"workloads": "leave"})


def lose(api: httpx.Client, who: str, loss: str) -> None:
    """Take from somebody what lets them see the workloads of NLP."""
    if loss == "role lost":
        rows = api.get("teams/nlp/members/").json()["results"]
        (row,) = (row for row in rows if who in str(row))
        answer = api.delete(f"teams/nlp/members/{row['id']}/")
    elif loss == "session ended":
        answer = api.delete(f"people/{who}/sessions/")
    else:
        answer = api.post(f"people/{who}/disable/", json={"workloads": "leave"})
    assert answer.status_code in {200, 204}, answer.text


WAYS = pytest.mark.parametrize("way", ["socket", "polling"])
BOUNDS_MS = {"socket": 5_000, "polling": 20_000}


def seen(visit: Visitor, who: str, path: str, text: str, way: str) -> Page:
    """Have somebody look at a page that shows this, with a socket or without."""
    page = visit(who, "/")
    if way == "polling":
        page.route_web_socket("**/ws/live/", lambda socket: socket.close())
    page.goto(path)
    expect(page.locator("main")).to_contain_text(text)
    expect(page.locator("#live-status")).to_contain_text("Live" if way == "socket" else "Not live")
    return page


@WAYS
@pytest.mark.parametrize("loss", ["role lost", "session ended", "account disabled"])
def test_an_open_page_shows_nothing_of_what_may_no_longer_be_seen(
    visit: Visitor, demo: Demo, guest: str, loss: str, way: str
) -> None:
    with demo.api("olga") as api:
        slug = submit(api, name="secret", team="nlp", gpus=1, command=["sleep", "6543"])
        page = seen(visit, guest, f"/workloads/{slug}/", "6543", way)
        lose(api, guest, loss)
        expect(page.locator("body")).not_to_contain_text("6543", timeout=BOUNDS_MS[way])
    visit.complaints.clear()  # the browser tells of each answer that is a refusal


def _moved(api: httpx.Client, slug: str, *, to: str) -> bool:
    answer = api.post(f"teams/{slug}/move/", json={"parent": to}, headers={"If-Match": "*"})
    return answer.status_code == 200


@WAYS
def test_an_open_page_of_a_team_that_moved_away_shows_nothing_of_it(
    visit: Visitor, demo: Demo, guest: str, way: str
) -> None:
    with demo.api("olga") as api:
        below = {"name": "Optics", "slug": f"optics-{way}", "parent": "nlp"}
        assert api.post("teams/", json=below).status_code == 201
        page = seen(visit, guest, f"/teams/optics-{way}/", "Optics", way)
        assert _moved(api, f"optics-{way}", to="research")
        expect(page.locator("body")).not_to_contain_text("Optics", timeout=BOUNDS_MS[way])
        assert api.delete(f"teams/optics-{way}/").status_code == 204
    visit.complaints.clear()


def has_the_turn(demo: Demo, who: str, until: str) -> None:
    """Give the turn to run cycles to somebody; whoever has it and does nothing is a scheduler that hangs."""
    with closing(sqlite3.connect(demo.data / "chamber.sqlite3", timeout=60)) as tables, tables:
        tables.execute("UPDATE scheduling_turn SET held_by = ?, held_until = ?", (who, until or None))


def test_an_open_page_begins_and_ends_to_say_that_nothing_is_decided(visit: Visitor, demo: Demo) -> None:
    page = visit("rosa", "/queue/")
    expect(page.locator("#live-status")).to_have_text("Live")
    notice = page.locator("#silence .notice")
    expect(notice).to_have_count(0)
    page.evaluate("window.untouched = true")
    has_the_turn(demo, "elsewhere:1", "2999-01-01 00:00:00")
    try:
        expect(notice).to_contain_text("The scheduler has decided nothing since ")
        with demo.api("rosa") as api:
            slug = submit(api, name="undecided", team="nlp", gpus=1)
        expect(page.get_by_role("row").filter(has_text=slug)).to_contain_text("Scheduler silent")
    finally:
        has_the_turn(demo, "", "")
    expect(notice).to_have_count(0)
    expect(page.get_by_text(slug)).to_have_count(0)
    assert page.evaluate("window.untouched"), "the page was reloaded"


def test_a_wrong_form_keeps_its_values_and_says_what_is_wrong_beside_the_field(visit: Visitor) -> None:
    page = visit("rosa", "/workloads/submit/")
    page.get_by_label("Name", exact=False).first.fill("odd")
    page.get_by_label("Image").fill("demo/trainer:1")
    page.get_by_label("GPUs per pod").fill("1.25")
    page.get_by_role("main").get_by_role("button", name="Submit").click()
    beside = page.get_by_role("region", name="How much").get_by_text("The nearest legal values are 1 and 2")
    expect(beside).to_be_visible()
    expect(page.get_by_label("GPUs per pod")).to_have_value("1.25")
    visit.complaints.clear()  # the browser notes the answer 422


def test_a_reserved_workload_takes_back_exactly_what_it_needs(visit: Visitor, demo: Demo) -> None:
    with demo.api("tara") as other:
        bursting = [
            submit(other, name="burst", team="training", pools=["main"], gpus=4, command=["sleep", "900"])
            for _ in range(25)
        ]
        until(lambda: all(status_of(other, slug) == "running" for slug in bursting))
        page = visit("rosa", "/workloads/submit/")
        page.get_by_label("Name", exact=False).first.fill("needed")
        page.get_by_label("Image").fill("demo/trainer:1")
        page.get_by_label("Command").fill("sleep 900")
        page.get_by_label("GPUs per pod").fill("4")
        page.get_by_label("Pods").first.fill("3")
        page.get_by_label("Reserved (100)").check()
        page.get_by_role("main").get_by_role("button", name="Submit").click()
        status_badge(page, "Running")
        expect(page.get_by_text("Preempted", exact=False).first).to_be_visible()
        states = [status_of(other, slug) for slug in bursting]
        assert states.count("running") == 22
        victim = bursting[next(i for i, state in enumerate(states) if state != "running")]
    theirs = visit("tara", f"/workloads/{victim}/")
    status_badge(theirs, "Pending")
    expect(theirs.get_by_text("inside its guarantee", exact=False).first).to_be_visible()


def test_cancelling_asks_first_and_then_ends_it(visit: Visitor, demo: Demo) -> None:
    with demo.api("rosa") as api:
        slug = submit(api, name="unwanted", team="nlp", gpus=1, command=["sleep", "900"])
        until(lambda: status_of(api, slug) == "running")
    page = visit("rosa", f"/workloads/{slug}/")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel workload").click()
    status_badge(page, "Cancelled")


def set_burst_limit(page: Page, percent: str) -> None:
    """Edit the row of Training. The form takes the focus when it is there: who types before types elsewhere."""
    page.get_by_role("link", name="Edit Training").click()
    expect(page.locator("[data-focus]")).to_be_focused()
    page.get_by_label("Burst limit", exact=False).fill(percent)
    page.get_by_role("button", name="Save").click()


def test_an_admin_changes_limits_and_open_pages_and_the_next_plan_follow(visit: Visitor, demo: Demo) -> None:
    watcher = visit("tara", "/teams/?pool=main")
    admin = visit("olga", "/teams/?pool=main")
    set_burst_limit(admin, "0")
    expect(admin.get_by_role("row").filter(has_text="Training")).to_contain_text("no bursting")
    expect(watcher.get_by_role("row").filter(has_text="Training")).to_contain_text("no bursting")
    with demo.api("tara") as api:
        slugs = [submit(api, name="many", team="training", pools=["main"], gpus=8) for _ in range(3)]
        until(lambda: [status_of(api, slug) for slug in slugs].count("running") == 2)
        last = next(slug for slug in slugs if status_of(api, slug) == "pending")
        until(lambda: reason_of(api, last) == "waiting-for-ceiling")
    set_burst_limit(admin, "")
    with demo.api("tara") as api:
        until(lambda: status_of(api, last) == "running")


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True)])
def test_an_admin_sees_what_an_edit_would_do_before_it_is_saved(
    visit: Visitor, demo: Demo, width: int, dark: bool
) -> None:
    page = visit("olga", "/teams/?pool=main", width=width, dark=dark)
    page.get_by_role("link", name="Edit Training").click()
    expect(page.locator("[data-focus]")).to_be_focused()
    page.get_by_label("Burst limit").fill("0")
    page.get_by_role("button", name="See the effect").click()
    effect = page.get_by_role("region", name="Effect on teams")
    row = effect.get_by_role("row").filter(has_text="Training").filter(has_text="Main")
    expect(row).to_contain_text("no limit")
    expect(row).to_contain_text("16")
    expect(page.get_by_label("Burst limit")).to_have_value("0")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto("/teams/training/edit/?pool=main")
    page.get_by_label("Reservation").fill("15")
    page.get_by_role("button", name="See the effect").click()
    expect(page.get_by_role("columnheader", name="Would hold") if width > 640 else effect).to_be_visible()
    assert effect.evaluate("table => table.scrollWidth <= table.clientWidth"), "no column is cut"
    with demo.api("olga") as api:
        assert api.get("teams/training/").json()["burst_limit_percent"] is None


def test_who_would_be_next_is_asked_on_the_queue_s_page(visit: Visitor) -> None:
    page = visit("rosa", "/queue/main/")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("Nobody would start")).to_be_visible(timeout=15_000)


PAGES = [
    "/",
    "/workloads/",
    "/workloads/submit/",
    "/queue/",
    "/teams/",
    "/pools/",
    "/pools/main/",
    "/tokens/",
    "/settings/audit/",
    "/teams/edit/?pool=main",
]
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
UNBROKEN, REAL = "w" * 60, "foundation-models-pretraining-evaluation"


@pytest.fixture
def long_names(demo: Demo) -> Iterator[list[str]]:
    """Teams, pools, a cluster and workloads with the longest names; the pages of each. They are taken away again."""
    with demo.api("olga") as api:
        for path, kind in (("teams", "team"), ("pools", "pool"), ("clusters", "cluster")):
            for slug in (UNBROKEN, REAL):
                name = {"name": slug} if kind == "cluster" else {"name": slug, "slug": slug}
                body = name | ({"parent": "research"} if kind == "team" else {})
                assert api.post(f"{path}/", json=body).status_code == 201
        slugs = [submit(api, name=name, team="nlp", gpus=1) for name in ("w" * 100, REAL)]
        yield [
            *(
                f"/{kind}/{slug}/"
                for kind in ("teams", "pools", "clusters", "queue")
                for slug in (UNBROKEN, REAL)
            ),
            *(f"/workloads/{slug}/" for slug in slugs),
            f"/teams/?pool={UNBROKEN}",
            f"/teams/pools/{UNBROKEN}/edit/",
        ]
        for path in ("teams", "pools", "clusters"):
            for slug in (UNBROKEN, REAL):
                assert api.delete(f"{path}/{slug}/").status_code == 204


IN_A_NARROW_TABLE = """name => {
    const box = document.querySelector("main").appendChild(document.createElement("div"));
    box.style.width = "1px";
    box.innerHTML = '<table class="table"><tbody><tr><td data-label="Team"></td><td>x</td></tr></tbody></table>';
    const cell = box.querySelector("td"), range = document.createRange();
    cell.textContent = name;
    range.selectNodeContents(cell);
    return range.getClientRects().length;
}"""
"""Into how many lines a team's name breaks where its table has no room."""
PLACEHOLDER = """() => {
    const field = document.querySelector("#site-search"), style = getComputedStyle(field);
    const text = document.createElement("canvas").getContext("2d");
    text.font = style.font;
    const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
    return [text.measureText(field.placeholder).width, field.clientWidth - padding];
}"""
"""How wide the words in the search field are, and the room for them."""


def test_names_of_teams_and_the_words_in_the_search_field_are_whole(visit: Visitor) -> None:
    assert visit("olga").evaluate(IN_A_NARROW_TABLE, "Inference") == 1
    needed, there = visit("olga", width=390).evaluate(PLACEHOLDER)
    assert 0 < needed <= there


@pytest.mark.parametrize("width", [1440, 390])
def test_every_page_fits_its_width_and_the_console_is_silent(
    visit: Visitor, long_names: list[str], width: int
) -> None:
    page = visit("olga", width=width)
    for path in [*PAGES, *long_names]:
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        for scheme in SCHEMES:
            # Without another load: colours are the style sheet's alone.
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, scheme)
