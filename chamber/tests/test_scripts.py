"""What the pages' scripts do, in a real browser on pages made here: no server, and a socket held in hand."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.staticfiles import finders
from django.template import Context, Template
from django.template.loader import render_to_string
from django.urls import reverse
from playwright.sync_api import Browser, Page, Request, Route, WebSocketRoute, expect, sync_playwright

from chamber.people.forms import LinkForm, PersonForm

pytestmark = pytest.mark.chromium

ORIGIN = "http://chamber.test"
PATIENCE_MS = 90_000
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"


def missing(_: Request) -> dict[str, Any]:
    return {"status": 404, "body": "none"}


class Site:
    """Answers one page's requests from `pages`, hands out the socket, and remembers what was asked."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.pages: dict[str, Callable[[Request], dict[str, Any]]] = {}
        self.asked: list[Request] = []
        self.sockets: list[WebSocketRoute] = []
        self.heard: list[object] = []
        page.route("**/*", self._answer)
        page.route_web_socket("**/ws/live/", self._connect)

    def _answer(self, route: Route) -> None:
        path = urlsplit(route.request.url).path
        if path.startswith("/static/"):
            file = finders.find(path.removeprefix("/static/"))
            route.fulfill(path=str(file))
            return
        self.asked.append(route.request)
        answer = self.pages.get(path, missing)(route.request)
        headers = {"Content-Security-Policy": POLICY, "Content-Type": "text/html; charset=utf-8"}
        route.fulfill(**{**answer, "headers": {**headers, **answer.get("headers", {})}})

    def _connect(self, socket: WebSocketRoute) -> None:
        self.sockets.append(socket)
        socket.on_message(lambda message: self.heard.append(json.loads(message)))

    def render(self, content: str, *, person: str | None) -> str:
        """Return a page of the real layout around `content`, as this person sees it; None for nobody signed in."""
        source = "{% extends 'base.html' %}{% block content %}" + content + "{% endblock %}"
        user = SimpleNamespace(is_authenticated=person is not None, pk=person, _chamber_roles={})
        return Template(source).render(Context({"user": user, "may_submit": True}))

    def open(self, content: str, *, person: str = "ada") -> Page:
        """Show a page of the real layout around `content`."""
        html = self.render(content, person=person)
        self.pages["/"] = lambda _: {"body": html}
        self.page.goto(f"{ORIGIN}/")
        return self.page

    def announce(self, topic: str, version: int) -> None:
        """Say over the newest socket that a topic has a new version."""
        self.sockets[-1].send(json.dumps({"topic": topic, "version": version}))

    def until_fetched(self, path: str, times: int) -> None:
        """Wait until a path was asked for so often."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while len(self.fetched(path)) < times:
            assert time.monotonic() < deadline, f"{path} was fetched {len(self.fetched(path))} times"
            self.page.wait_for_timeout(50)

    def fetched(self, path: str) -> list[Request]:
        """Return the requests made for a path so far."""
        return [request for request in self.asked if urlsplit(request.url).path == path]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def site(browser: Browser) -> Iterator[Site]:
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.set_default_timeout(PATIENCE_MS)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text) if "Content Security" in line.text else None)
    yield Site(page)
    page.close()
    assert faults == []


def part(body: str, *, version: int = 1, told: str = "") -> str:
    return (
        f'<section id="part" data-live="queue:main" data-live-url="/part/" data-live-version="{version}"'
        f' data-live-summary="{told}">{body}</section>'
    )


def row(name: str, text: str) -> str:
    return f'<p data-key="{name}"><a href="#{name}" id="link-{name}">{text}</a></p>\n'


def test_a_newer_version_fetches_the_part_and_an_old_one_does_not(site: Site) -> None:
    site.pages["/part/"] = lambda _: {"body": part("new", version=2), "headers": {"ETag": '"2"'}}
    page = site.open(part("old"))
    expect(page.locator("#live-status")).to_have_text("Live")
    assert site.heard == [{"watch": ["queue:main", "sight", "silence", "tree"]}]
    site.announce("queue:main", 1)
    site.announce("another", 5)
    page.wait_for_timeout(200)
    assert site.fetched("/part/") == []
    site.announce("queue:main", 2)
    expect(page.locator("#part")).to_have_text("new")
    assert site.fetched("/part/")[0].headers["x-chamber-fragment"] == "1"


def test_a_page_whose_parts_cannot_be_fetched_is_not_live(site: Site) -> None:
    answers = iter([{"status": 503, "body": "The database does not answer."}])
    site.pages["/part/"] = lambda _: next(answers, {"body": part("new", version=3)})
    page = site.open(part("old"))
    expect(page.locator("#live-status")).to_have_text("Live")
    site.announce("queue:main", 2)
    expect(page.locator("#live-status")).to_contain_text("Not live since ")
    expect(page.locator("#part")).to_have_text("old")
    site.announce("queue:main", 3)
    expect(page.locator("#part")).to_have_text("new")
    expect(page.locator("#live-status")).to_have_text("Live")


def test_many_announcements_become_one_fetch_with_the_last_etag(site: Site) -> None:
    def answer(request: Request) -> dict[str, Any]:
        unchanged = request.headers.get("if-none-match") == '"a"'
        answer = {"body": part("new", version=2), "headers": {"ETag": '"a"'}}
        return {"status": 304} if unchanged else answer

    site.pages["/part/"] = answer
    page = site.open(part("old"))
    expect(page.locator("#live-status")).to_have_text("Live")
    site.announce("queue:main", 2)
    expect(page.locator("#part")).to_have_text("new")
    for version in range(3, 20):
        site.announce("queue:main", version)
    site.until_fetched("/part/", 2)
    page.wait_for_timeout(1500)
    assert [request.headers.get("if-none-match") for request in site.fetched("/part/")] == [None, '"a"']
    expect(page.locator("#part")).to_have_text("new")


def test_an_answer_older_than_what_was_announced_is_fetched_once_more(site: Site) -> None:
    answers = iter([part("kept for others", version=2), *[part("new", version=3)] * 9])
    site.pages["/part/"] = lambda _: {"body": next(answers)}
    page = site.open(part("old"))
    expect(page.locator("#live-status")).to_have_text("Live")
    site.announce("queue:main", 3)
    expect(page.locator("#part")).to_have_text("new")
    page.wait_for_timeout(1500)
    assert [request.headers["x-chamber-heard"] for request in site.fetched("/part/")] == ["queue:main=3"] * 2


def test_other_numbers_than_before_are_another_version_even_smaller_ones(site: Site) -> None:
    site.pages["/part/"] = lambda _: {"body": part("after a restart", version=3)}
    page = site.open(part("old", version=5))
    expect(page.locator("#live-status")).to_have_text("Live")
    site.announce("queue:main", 3)
    expect(page.locator("#part")).to_have_text("after a restart")
    assert len(site.fetched("/part/")) == 1


def test_a_form_of_a_fetched_part_posts_the_token_of_its_page(site: Site) -> None:
    site.pages["/part/"] = lambda _: {
        "body": part('<form method="post" action="/act/"><button>Act</button></form>')
    }
    site.pages["/act/"] = lambda _: {"body": "done"}
    page = site.open(part("old"))
    page.evaluate("""document.body.setAttribute("hx-headers", '{"X-CSRFToken": "t0ken"}')""")
    expect(page.locator("#live-status")).to_have_text("Live")
    site.announce("queue:main", 2)
    with page.expect_navigation():
        page.click("#part button")
    assert site.fetched("/act/")[0].post_data == "csrfmiddlewaretoken=t0ken"


def test_what_the_reader_is_doing_survives_a_change(site: Site) -> None:
    inside = '<input id="note" value="{0}"><details><summary>More</summary>{0}</details>'
    before = inside.format("old") + row("a", "A old") + row("b", "B old") + row("c", "C old")
    after = inside.format("new") + row("c", "C new") + row("b", "B new") + row("d", "D new")
    site.pages["/part/"] = lambda _: {"body": part(after)}
    page = site.open(part(before))
    page.fill("#note", "mine")
    page.click("summary")
    page.focus("#link-c")
    page.evaluate("document.querySelector('[data-key=c]').mark = 'the same element'")
    site.announce("queue:main", 2)
    expect(page.locator("#part p")).to_have_text(["C new", "B new", "D new"])
    assert page.input_value("#note") == "mine"
    assert page.evaluate("document.querySelector('details').open")
    assert page.evaluate("document.activeElement.id") == "link-c"
    assert page.evaluate("document.querySelector('[data-key=c]').mark") == "the same element"


def test_a_changed_summary_is_told_to_screen_readers(site: Site) -> None:
    site.pages["/part/"] = lambda _: {"body": part("new", told="3 wait")}
    page = site.open(part("old", told="2 wait"))
    expect(page.locator("#live-status")).to_have_text("Live")
    site.announce("queue:main", 2)
    expect(page.locator("#live-summary")).to_have_text("3 wait")


def test_without_a_socket_the_page_polls_and_says_since_when(site: Site) -> None:
    site.pages["/part/"] = lambda _: {"body": part("polled")}
    page = site.page
    page.clock.install()
    site.open(part("old"))
    expect(page.locator("#live-status")).to_have_text("Live")
    page.route_web_socket("**/ws/live/", lambda socket: socket.close())
    site.sockets[-1].close(code=1001)
    expect(page.locator("#live-status")).to_contain_text("Not live since")
    assert site.fetched("/part/") == []
    page.clock.run_for(16_500)
    expect(page.locator("#part")).to_have_text("polled")


def test_sockets_that_close_before_anything_is_heard_are_not_called_live(site: Site) -> None:
    site.pages["/part/"] = lambda _: {"body": part("polled")}
    page = site.page
    page.clock.install()
    site.open(part("old"))
    expect(page.locator("#live-status")).to_have_text("Live")
    opened: list[WebSocketRoute] = []

    def end(socket: WebSocketRoute) -> None:
        opened.append(socket)
        socket.on_message(lambda _: socket.close(code=1013))

    page.route_web_socket("**/ws/live/", end)
    site.sockets[-1].close(code=1001)
    expect(page.locator("#live-status")).to_contain_text("Not live since")
    said = page.locator("#live-status").inner_text()
    page.evaluate(
        """() => {
            window.told = [];
            const status = document.getElementById("live-status");
            new MutationObserver(() => told.push(status.textContent)).observe(status, { childList: true });
        }"""
    )
    for _ in range(20):
        page.clock.run_for(10_000)
    assert len(opened) > 1
    assert set(page.evaluate("told")) <= {said}
    page.route_web_socket("**/ws/live/", site._connect)
    while len(site.sockets) < 2:
        page.clock.run_for(5_000)
    site.announce("queue:main", 1)
    expect(page.locator("#live-status")).to_have_text("Live")


def test_a_part_one_may_no_longer_see_says_so_and_is_left_alone(site: Site) -> None:
    site.pages["/part/"] = lambda _: {"status": 403, "body": "no"}
    page = site.open(part("old"))
    expect(page.locator("#live-status")).to_have_text("Live")
    site.announce("queue:main", 2)
    expect(page.locator(".live-note")).to_have_text("You may no longer see this part.")
    site.announce("queue:main", 3)
    page.wait_for_timeout(1200)
    assert len(site.fetched("/part/")) == 1


def with_sight(site: Site, number: int) -> Page:
    """Open a page with a secret, and another number than the layout's own."""
    page = site.open("<p>the secret</p>" + part("old"))
    own = page.locator("[data-sight]").get_attribute("data-sight") or ""
    html = site.pages["/"](None)["body"]  # type: ignore[arg-type]
    site.pages["/"] = lambda _: {"body": html.replace("the secret", "what is left").replace(own, str(number))}
    expect(page.locator("#live-status")).to_have_text("Live")
    return page


def test_what_one_may_no_longer_see_of_a_page_goes_once_the_socket_tells(site: Site) -> None:
    page = with_sight(site, 77)
    own = int(page.locator("[data-sight]").get_attribute("data-sight") or 0)
    page.evaluate("window.untouched = true")
    site.announce("sight", own)
    page.wait_for_timeout(300)
    expect(page.locator("main")).to_contain_text("the secret")
    site.announce("sight", 77)
    expect(page.locator("main")).to_contain_text("what is left")
    expect(page.locator("main")).not_to_contain_text("the secret")
    assert page.evaluate("window.untouched"), "the page was loaded anew"
    site.announce("sight", 77)
    page.wait_for_timeout(300)
    assert len(site.fetched("/")) == 2


@pytest.mark.parametrize("status", [403, 404])
def test_a_page_that_one_may_no_longer_see_is_left(site: Site, status: int) -> None:
    page = with_sight(site, 77)
    site.pages["/"] = lambda _: {"status": status, "body": "<p>There is no such page.</p>"}
    with page.expect_navigation():
        site.announce("sight", 77)
    expect(page.locator("body")).to_have_text("There is no such page.")


def test_a_part_that_one_may_no_longer_see_takes_the_page_with_it(site: Site) -> None:
    site.pages["/part/"] = lambda _: {"status": 404, "body": "no"}
    page = with_sight(site, 77)
    site.announce("queue:main", 2)
    expect(page.locator("main")).to_contain_text("what is left")


def test_without_a_socket_it_goes_with_the_next_poll(site: Site) -> None:
    site.page.clock.install()
    page = site.open("<p>the secret</p>")
    expect(page.locator("#live-status")).to_have_text("Live")
    html = site.pages["/"](None)["body"]  # type: ignore[arg-type]
    own = page.locator("[data-sight]").get_attribute("data-sight") or ""
    changed = html.replace("the secret", "what is left").replace(own, "77")
    site.pages["/"] = lambda _: {"body": changed}
    site.pages["/scheduling/silence/"] = lambda _: {
        "body": '<div id="silence" data-live="silence tree" data-sight="77"></div>'
    }
    page.route_web_socket("**/ws/live/", lambda socket: socket.close())
    site.sockets[-1].close(code=1011)
    expect(page.locator("#live-status")).to_contain_text("Not live")
    page.clock.run_for(16_000)
    expect(page.locator("main")).not_to_contain_text("the secret")
    expect(page.locator("main")).to_contain_text("what is left")


def test_a_session_that_ended_reloads_the_page(site: Site) -> None:
    page = site.open(part("old"))
    expect(page.locator("#live-status")).to_have_text("Live")
    with page.expect_navigation():
        site.sockets[-1].close(code=4401)
    assert len(site.fetched("/")) == 2


def test_a_page_whose_form_is_on_its_way_waits_for_its_answer_though_its_session_has_ended(
    site: Site,
) -> None:
    site.page.clock.install()
    site.pages["/save/"] = lambda _: {"status": 204}  # with which the page stays
    page = site.open(part("old") + '<form method="post" action="/save/"><button>Save</button></form>')
    expect(page.locator("#live-status")).to_have_text("Live")
    page.click("main form button")
    site.until_fetched("/save/", 1)
    site.sockets[-1].close(code=4401)
    expect(page.locator("#live-status")).to_contain_text("Not live")
    page.clock.run_for(5_000)
    page.evaluate("fetch('/save/')")  # after what a reload would have asked for
    assert len(site.fetched("/")) == 1


def test_a_destructive_form_posts_only_after_confirmation(site: Site) -> None:
    site.pages["/cancel/"] = lambda _: {"body": "cancelled"}
    page = site.open(
        '<form method="post" action="/cancel/"><button name="really" value="yes"'
        ' data-confirm="Cancel train-1?" data-confirm-button="Cancel workload">Cancel</button></form>'
    )
    page.click("main button")
    expect(page.locator("#confirm-title")).to_have_text("Cancel train-1?")
    assert page.evaluate("document.activeElement.textContent") == "Keep it"
    page.keyboard.press("Escape")
    assert site.fetched("/cancel/") == []
    page.click("main button")
    with page.expect_navigation():
        page.click("text=Cancel workload")
    assert site.fetched("/cancel/")[0].post_data == "really=yes"


def test_keys_search_help_and_go(site: Site) -> None:
    site.pages["/there/"] = lambda _: {"body": "there"}
    page = site.open('<a href="/there/" data-shortcut="g x">There</a>')
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "site-search"
    page.keyboard.type("gx?")
    assert page.input_value("#site-search") == "gx?"
    assert page.url == f"{ORIGIN}/"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    expect(page.locator("#help-dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("x")
    page.wait_for_url("**/there/")


def test_the_palette_finds_a_page_by_a_part_of_its_name(site: Site) -> None:
    site.pages["/there/"] = lambda _: {"body": "there"}
    page = site.open('<a href="/there/" data-palette="Team Vision">Vision</a>')
    page.keyboard.press("Control+k")
    page.keyboard.type("vis team")
    options = page.locator("#palette-list li")
    expect(options).to_have_text(["Team Vision", "Search workloads for “vis team”"])
    page.keyboard.press("Enter")
    page.wait_for_url("**/there/")


def test_the_theme_is_kept_in_a_cookie_that_the_server_reads(site: Site) -> None:
    page = site.open("")
    page.click("#theme-toggle")
    assert page.get_attribute("html", "data-theme") == "light"
    page.click("#theme-toggle")
    assert page.evaluate("document.cookie") == "theme=dark"
    page.click("#theme-toggle")
    assert page.get_attribute("html", "data-theme") is None
    assert page.evaluate("document.cookie") == ""


def test_times_stay_true_while_a_page_is_open(site: Site) -> None:
    site.page.clock.install(time="2026-03-01T12:00:00Z")
    page = site.open(
        '<time id="at" datetime="2026-03-01T11:58:30Z" data-relative>x</time>'
        '<time id="for" datetime="2026-03-01T11:58:30Z" data-elapsed>x</time>'
    )
    page.clock.run_for(1000)
    expect(page.locator("#at")).to_have_text("1 min ago")
    page.clock.fast_forward("01:00:00")
    expect(page.locator("#at")).to_have_text("1 h ago")
    expect(page.locator("#for")).to_have_text("1 h 01 min")


def test_selecting_rows_counts_them_and_shows_what_can_be_done(site: Site) -> None:
    page = site.open(
        '<form data-selection><input type="checkbox" data-select-all><input type="checkbox" data-select>'
        '<input type="checkbox" data-select><p data-if-selected><b data-selected-count></b></p></form>'
    )
    expect(page.locator("[data-if-selected]")).to_be_hidden()
    page.click("[data-select] >> nth=0")
    expect(page.locator("[data-selected-count]")).to_have_text("1")
    assert page.evaluate("document.querySelector('[data-select-all]').indeterminate")
    page.click("[data-select-all]")
    expect(page.locator("[data-selected-count]")).to_have_text("2")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"status": 409, "body": "no"}, "Somebody or something was quicker."),
        ({"status": 500, "body": "no"}, "The server could not answer."),
        (
            {
                "status": 403,
                "body": "no",
                "headers": {"HX-Trigger": '{"toast": {"message": "Ask a lead.", "level": "error"}}'},
            },
            "Ask a lead.",
        ),
    ],
)
def test_a_failed_request_shows_one_toast(site: Site, answer: dict[str, Any], message: str) -> None:
    site.pages["/act/"] = lambda _: answer
    page = site.open('<button hx-post="/act/" id="act">Act</button>')
    page.click("#act")
    expect(page.locator(".toast")).to_have_count(1)
    expect(page.locator(".toast p")).to_contain_text(message)


def test_errors_of_a_form_are_swapped_in_and_take_the_focus(site: Site) -> None:
    wrong = '<form id="form" hx-post="/act/"><div tabindex="-1" data-focus>Wrong</div></form>'
    site.pages["/act/"] = lambda _: {"status": 422, "body": wrong}
    page = site.open(
        '<form id="form" hx-post="/act/" hx-swap="outerHTML"><button id="send">Send</button></form>'
    )
    page.click("#send")
    expect(page.locator("[data-focus]")).to_be_focused()


def test_a_password_is_shown_while_its_button_is_pressed_and_never_sent_as_text(site: Site) -> None:
    form = LinkForm()
    fields = "".join(
        render_to_string("_components/field.html", {"field": form[name]}) for name in form.fields
    )
    page = site.open(f'<form method="post" action="/there/">{fields}<button id="send">Send</button></form>')
    first, second = page.locator("#id_password1"), page.locator("#id_password2")
    first.fill("rotor glade mosaic 41")
    second.fill("rotor glade mosaic 41")
    button = page.get_by_role("button", name="Show what was typed").first
    button.click()
    expect(first).to_have_attribute("type", "text")
    expect(second).to_have_attribute("type", "password")
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(first).to_have_attribute("type", "password")
    button.click()
    page.evaluate("document.addEventListener('submit', (event) => event.preventDefault())")
    page.locator("#send").click()
    expect(first).to_have_attribute("type", "password")
    expect(first).to_have_value("rotor glade mosaic 41")


def test_without_scripts_no_button_shows_a_password() -> None:
    html = render_to_string("_components/field.html", {"field": LinkForm()["password1"]})
    assert re.search(r'<button[^>]+data-show="id_password1"[^>]+hidden>', html)
    assert "data-show" not in render_to_string("_components/field.html", {"field": PersonForm()["name"]})


FILLED = (
    '<form method="post" action="/send/" id="f"><input name="name"><input name="pw" type="password">'
    '<input name="secret" type="hidden" value="new"><textarea name="text"></textarea>'
    '<textarea name="keys" data-secret></textarea>'
    '<input name="box" type="checkbox"><input name="way" type="radio" value="a" checked>'
    '<input name="way" type="radio" value="b"><select name="one"><option>x</option><option>y</option></select>'
    "<button>Send</button></form>"
)
SIGN_IN = '<form method="post" action="/sign-in/"><input name="login"><button>Sign in</button></form>'


def fill_in(page: Page) -> None:
    page.fill("[name=name]", "train-7")
    page.fill("[name=pw]", "correct horse")
    page.evaluate("document.querySelector('[name=secret]').value = 'old'")
    page.fill("[name=text]", "two\nlines")
    page.fill("[name=keys]", "KEY=correct horse")
    page.check("[name=box]")
    page.check("[name=way][value=b]")
    page.select_option("[name=one]", "y")


def values(page: Page) -> list[object]:
    assert page.evaluate("document.forms.f.elements.keys.value") == "", "a secret is not kept"
    return page.evaluate(  # type: ignore[no-any-return]
        "(({name, pw, secret, text, box, way, one}) => [name.value, "
        "pw.value, secret.value, text.value, box.checked, way.value, one.value])(document.forms.f.elements)"
    )


def until_nothing_is_kept(page: Page) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while page.evaluate("sessionStorage.getItem('chamber:filled-in')") is not None:
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)


EMPTY = ["", "", "new", "", False, "a", "x"]
BACK = ["train-7", "", "new", "two\nlines", True, "b", "y"]


def leads_to(path: str) -> dict[str, Any]:
    """Return a page that leads on, as a redirection does: what follows one is not asked of the test."""
    return {"body": f'<meta http-equiv="refresh" content="0;url={path}">'}


def sign_in_page(site: Site) -> str:
    path = str(reverse("account_login"))
    site.pages[path] = lambda _: {"body": site.render(SIGN_IN, person=None)}
    return path


@pytest.mark.parametrize(
    ("who", "after", "shown"),
    [("ada", 1, BACK), ("eve", 1, EMPTY), ("ada", 61, EMPTY)],
    ids=["same", "other", "late"],
)
def test_what_was_filled_in_while_the_session_ended_comes_back_to_its_person_alone(
    site: Site, who: str, after: int, shown: list[object]
) -> None:
    path = sign_in_page(site)
    site.pages["/send/"] = lambda _: leads_to(path)
    page = site.open(FILLED, person="ada")
    page.clock.install()
    fill_in(page)
    page.click("text=Send")
    page.wait_for_url(f"{ORIGIN}{path}")
    page.clock.fast_forward(after * 60_000)
    if after > 60:
        until_nothing_is_kept(page)  # though nobody came back
    site.open(FILLED, person=who)
    assert values(page) == shown
    told = page.get_by_text("What you had filled in is here again. It was not sent.")
    expect(told).to_have_count(1 if shown == BACK else 0)
    until_nothing_is_kept(page)


def test_what_was_filled_in_and_not_sent_comes_back_after_a_sign_out_elsewhere(site: Site) -> None:
    path = sign_in_page(site)
    page = site.open(part("old") + FILLED, person="ada")
    expect(page.locator("#live-status")).to_have_text("Live")
    fill_in(page)
    site.pages["/"] = lambda _: leads_to(path)
    site.sockets[-1].close(code=4401)
    page.wait_for_url(f"{ORIGIN}{path}")
    site.open(FILLED, person="ada")
    assert values(page) == BACK


def test_a_password_that_is_shown_and_what_is_hidden_are_not_kept(site: Site) -> None:
    path = sign_in_page(site)
    fields = "".join(
        render_to_string("_components/field.html", {"field": each})
        for each in (LinkForm()["password1"], PersonForm()["name"])
    )
    hidden = '<textarea name="list" hidden>people</textarea><input name="again" autocomplete="new-password">'
    form = f'<form method="post" action="/there/">{fields}{hidden}</form>'
    page = site.open(part("old") + form, person="ada")
    expect(page.locator("#live-status")).to_have_text("Live")
    page.fill("#id_password1", "rotor glade mosaic 41")
    page.fill("[name=again]", "rotor glade mosaic 41")
    page.fill("[name=name]", "Ada")
    page.get_by_role("button", name="Show what was typed").click()
    expect(page.locator("#id_password1")).to_have_attribute("type", "text")
    site.pages["/"] = lambda _: leads_to(path)
    site.sockets[-1].close(code=4401)
    page.wait_for_url(f"{ORIGIN}{path}")
    kept = json.loads(page.evaluate("sessionStorage.getItem('chamber:filled-in')"))
    assert [fields for _, fields in kept["forms"]] == [[["name", "Ada"]]]


def test_what_was_sent_is_not_filled_in_again(site: Site) -> None:
    sign_in_page(site)
    site.pages["/send/"] = lambda _: {"body": site.render("<p>Sent</p>", person="ada")}
    page = site.open(FILLED, person="ada")
    fill_in(page)
    page.click("text=Send")
    expect(page.get_by_text("Sent")).to_be_visible()
    until_nothing_is_kept(page)
    page.goto(f"{ORIGIN}{reverse('account_login')}")
    site.open(FILLED, person="ada")
    assert values(page) == EMPTY


def test_a_form_in_a_dialog_that_comes_back_is_open(site: Site) -> None:
    path = sign_in_page(site)
    site.pages["/send/"] = lambda _: leads_to(path)
    folded = f'<dialog id="d">{FILLED}</dialog><button type="button" data-open="d">Edit</button>'
    page = site.open(folded, person="ada")
    page.click("text=Edit")
    fill_in(page)
    page.click("text=Send")
    page.wait_for_url(f"{ORIGIN}{path}")
    site.open(folded, person="ada")
    expect(page.locator("[name=name]")).to_be_visible()
    assert values(page) == BACK


def test_a_form_without_an_address_comes_back_beside_others_of_its_kind(site: Site) -> None:
    path = sign_in_page(site)
    beside = (
        '<form method="dialog"><button>Close</button></form><form method="post"><input name="other"></form>'
    )
    form = FILLED.replace(' action="/send/" id="f"', "").replace("<form", '<form name="f"')
    page = site.open(part("old") + beside + form, person="ada")
    expect(page.locator("#live-status")).to_have_text("Live")
    fill_in(page)
    site.pages["/"] = lambda _: leads_to(path)
    site.sockets[-1].close(code=4401)
    page.wait_for_url(f"{ORIGIN}{path}")
    site.open(beside + form, person="ada")
    assert values(page) == BACK
    assert page.input_value("[name=other]") == ""
    assert page.locator("dialog[open]").count() == 0


@pytest.mark.parametrize(("status", "method"), [(200, "GET"), (422, "POST")])
def test_a_reload_sends_again_what_was_refused_and_not_what_was_done(
    site: Site, status: int, method: str
) -> None:
    page = site.open('<form method="post" action="/tokens/"><button>Make</button></form>')
    site.pages["/tokens/"] = lambda _: {
        "status": status,
        "body": site.render("<p>Answered</p>", person="ada"),
    }
    page.click("text=Make")
    expect(page.get_by_text("Answered")).to_be_visible()
    expect(page.locator("#toasts")).to_be_attached()
    page.wait_for_load_state("networkidle")
    page.reload()
    assert [request.method for request in site.fetched("/tokens/")] == ["POST", method]


def test_a_form_that_the_server_rendered_again_comes_back_with_what_was_typed(site: Site) -> None:
    path = sign_in_page(site)
    again = '<form method="post" id="f" action="/send/"><input name="name" value="train-7"></form>'
    site.pages["/again/"] = lambda _: {"body": again}
    first = (
        '<div id="area"><form method="post" id="f" action="/send/"><input name="name">'
        '<select name="team" hx-get="/again/" hx-target="#area"><option>nlp</option><option>vision</option></select>'
        "</form></div>"
    )
    page = site.open(part("old") + first, person="ada")
    expect(page.locator("#live-status")).to_have_text("Live")
    page.fill("[name=name]", "train-7")
    page.select_option("[name=team]", "vision")
    expect(page.locator("[name=team]")).to_have_count(0)
    site.pages["/"] = lambda _: leads_to(path)
    site.sockets[-1].close(code=4401)
    page.wait_for_url(f"{ORIGIN}{path}")
    site.open(again.replace("train-7", ""), person="ada")
    assert page.input_value("[name=name]") == "train-7"


def test_a_list_that_was_checked_comes_back_though_its_page_shows_it_as_it_was_sent(site: Site) -> None:
    path = sign_in_page(site)
    form = '<form method="post" action="/list/" data-filled><textarea name="text">a,b</textarea></form>'
    page = site.open(part("old") + form, person="ada")
    expect(page.locator("#live-status")).to_have_text("Live")
    site.pages["/"] = lambda _: leads_to(path)
    site.sockets[-1].close(code=4401)
    page.wait_for_url(f"{ORIGIN}{path}")
    site.open(form.replace("a,b", "").replace(" data-filled", ""), person="ada")
    assert page.input_value("[name=text]") == "a,b"
