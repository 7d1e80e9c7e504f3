"""The module that follows a pod's log, in a real browser: text only as text, its place kept, bounded."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from chamber.tests.test_scripts import ORIGIN, Site, browser, site  # noqa: F401 - fixtures

pytestmark = pytest.mark.chromium

PANEL = """
<section id="logs" data-logs="/api/logs/?attempt=1">
  <p data-logs-state>east</p>
  <button type="button" data-logs-pause aria-pressed="false" hidden>Pause</button>
  <pre class="log" data-logs-lines tabindex="0">from the server</pre>
  <button type="button" data-logs-end hidden>Jump to end</button>
</section>
"""


SAID = """
window.said = [];
new MutationObserver(() => window.said.push(document.querySelector("[data-logs-state]")?.textContent))
  .observe(document, {subtree: true, childList: true, characterData: true});
"""
"""Remembers every state that the panel has shown."""


def lines(text: str, place: str = "", dropped: str = "") -> str:
    begin = f"id: {place}\n" if place else ""
    return f"{begin}event: lines\ndata: {json.dumps({'text': text, 'dropped': dropped})}\n\n"


def said(kind: str, code: str, message: str = "") -> str:
    return f"event: {kind}\ndata: {json.dumps({'code': code, 'message': message})}\n\n"


def follow(site: Site, *answers: str) -> Page:  # noqa: F811
    """Show the panel; each time it opens its stream, the next answer is given, the last one again."""
    waiting = list(answers)

    def answer(_: Request) -> dict[str, Any]:
        body = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return {"body": body, "headers": {"Content-Type": "text/event-stream"}}

    site.pages["/api/logs/"] = answer
    return site.open(PANEL)


END = said("end", "ended", "The pod has ended.")


def test_lines_and_notes_are_shown_as_text_and_the_end_is_told(site: Site) -> None:  # noqa: F811
    page = follow(site, lines("one\n<b>two</b>\n", "2", "7 lines dropped here") + END)
    box = page.locator("[data-logs-lines]")
    expect(box).to_have_text(
        "… 7 lines dropped hereone\n<b>two</b>\n… The pod has ended.", use_inner_text=False
    )
    expect(box.locator("b")).to_have_count(0)
    expect(box.locator(".logs-note")).to_have_count(2)
    expect(page.locator("[data-logs-state]")).to_have_text("east, ended")
    expect(page.locator("[data-logs-pause]")).to_be_hidden()
    assert [request.url for request in site.fetched("/api/logs/")] == [
        f"{ORIGIN}/api/logs/?attempt=1&follow=true&tail=1000"
    ]


def test_of_a_silent_cluster_nothing_is_live_before_a_line_comes(site: Site) -> None:  # noqa: F811
    silent = PANEL.replace("<section ", "<section data-logs-silent ").replace(
        "<pre", "<p data-logs-silence>The cluster east was last seen 14:02:10 UTC.</p><pre"
    )
    site.page.clock.install()
    answers = [": still here\n\n", lines("one\n", "1")]
    headers = {"Content-Type": "text/event-stream"}
    site.pages["/api/logs/"] = lambda _: {"body": answers.pop(0) if answers else END, "headers": headers}
    site.page.add_init_script(SAID)
    page = site.open(silent)
    expect(page.locator("[data-logs-state]")).to_have_text("east, not connected")
    expect(page.locator("[data-logs-silence]")).to_be_visible()
    page.clock.run_for(6000)
    expect(page.locator("[data-logs-lines]")).to_contain_text("one")
    expect(page.locator("[data-logs-silence]")).to_have_count(0)
    said_so_far = page.evaluate("window.said")
    assert said_so_far.index("east, live") > said_so_far.index("east, agent away")


def test_a_stream_that_breaks_goes_on_from_its_place(site: Site) -> None:  # noqa: F811
    site.page.clock.install()
    page = follow(site, lines("one\n", "0001"), lines("two\n", "0002") + END)
    box = page.locator("[data-logs-lines]")
    expect(box).to_have_text("one\n")
    expect(page.locator("[data-logs-state]")).to_have_text("east, not connected")
    page.clock.run_for(6000)
    expect(box).to_have_text("one\ntwo\n… The pod has ended.")
    assert site.fetched("/api/logs/")[1].url.endswith("follow=true&after=0001")


def test_who_has_scrolled_up_keeps_his_place_and_can_jump_to_the_end(site: Site) -> None:  # noqa: F811
    site.page.clock.install()
    first = lines("".join(f"line {number}\n" for number in range(200)), "1")
    page = follow(site, first, lines("new\nnewer\n", "2") + END)
    box, jump = page.locator("[data-logs-lines]"), page.locator("[data-logs-end]")
    expect(box).to_contain_text("line 199")
    at_end = "box => box.scrollHeight - box.scrollTop - box.clientHeight < 2"
    page.wait_for_function(f"({at_end})(document.querySelector('[data-logs-lines]'))")
    box.evaluate("box => { box.scrollTop = 50; }")
    page.clock.run_for(6000)
    expect(jump).to_have_text("Jump to end (3 new)")
    assert box.evaluate("box => box.scrollTop") == 50
    jump.click()
    assert box.evaluate(at_end)
    expect(jump).to_be_hidden()


def test_what_comes_while_it_is_paused_is_shown_afterwards(site: Site) -> None:  # noqa: F811
    site.page.clock.install()
    page = follow(site, lines("one\n", "1"), lines("two\nthree\n", "2"), END)
    box, pause = page.locator("[data-logs-lines]"), page.locator("[data-logs-pause]")
    expect(box).to_have_text("one\n")
    pause.click()
    expect(pause).to_have_text("Go on")
    page.clock.run_for(5500)
    expect(pause).to_have_text("Go on (2 new)")
    expect(box).to_have_text("one\n")
    pause.click()
    expect(box).to_have_text("one\ntwo\nthree\n")


def test_a_page_holds_a_bounded_number_of_lines(site: Site) -> None:  # noqa: F811
    text = "".join(lines("".join(f"{part}-{number}\n" for number in range(1000)), "") for part in range(8))
    page = follow(site, text + END)
    box = page.locator("[data-logs-lines]")
    expect(box).to_contain_text("7-999")
    assert box.evaluate("box => box.textContent.split('\\n').length") <= 5100
    assert not box.evaluate("box => box.textContent.includes('0-1\\n')")


def test_whoever_looks_at_a_pod_looks_at_the_same_one_of_the_next_attempt(site: Site) -> None:  # noqa: F811
    tools = '<form action="/w/logs/"><select name="pod"><option>0</option><option>2</option></select></form>'
    site.pages["/w/logs/"] = lambda _: {"body": "<p>the next</p>"}
    stream = {"body": lines("one\n", "1") + END, "headers": {"Content-Type": "text/event-stream"}}
    site.pages["/api/logs/"] = lambda _: stream
    later = '<button id="later" hx-get="/w/logs/">The next attempt</button>'
    page = site.open(PANEL.replace("<p data-logs-state>", f"{tools}<p data-logs-state>") + later)
    expect(page.locator("[data-logs-lines]")).to_contain_text("one")
    page.locator("#later").click()
    page.locator("[name=pod]").select_option("2")
    page.locator("#later").click()
    site.until_fetched("/w/logs/", 2)
    assert [request.url for request in site.fetched("/w/logs/")] == [
        f"{ORIGIN}/w/logs/",
        f"{ORIGIN}/w/logs/?pod=2",
    ]
