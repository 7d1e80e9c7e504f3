"""Passkeys in a real browser, which makes and uses them under the pages' own Content-Security-Policy."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.conftest import Demo
from tests.test_browser import ARGUMENTS
from tests.waiting import PATIENCE_MS

pytestmark = pytest.mark.chromium

DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        yield running
        running.close()


def sign_in(page: Page) -> None:
    page.goto("/sign-in/")
    page.get_by_label("User name").fill("vera")
    page.get_by_label("Password").fill("chamber-demo")
    page.get_by_role("button", name="Sign in", exact=True).click()


def sign_out(page: Page) -> None:
    page.get_by_role("button", name="Account of").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url("/sign-in/")


def test_a_passkey_is_made_and_signs_in_alone_and_beside_the_password(demo: Demo, browser: Browser) -> None:
    # A browser makes passkeys for names only.
    context = browser.new_context(base_url=demo.url.replace("127.0.0.1", "localhost"))
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(message.text)

    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", hear)
    device = context.new_cdp_session(page)
    device.send("WebAuthn.enable")
    device.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})
    sign_in(page)
    expect(page).to_have_url("/")
    page.goto("/settings/factors/passkey/")
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    page.get_by_role("link", name="I have them").click()
    expect(page.get_by_role("cell", name="without the password")).to_be_visible()
    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page).to_have_url("/")
    sign_out(page)
    sign_in(page)
    expect(page).to_have_url("/sign-in/factor/")
    page.get_by_role("button", name="Use a passkey").click()
    expect(page).to_have_url("/")
    page.goto("/settings/factors/")
    page.get_by_role("button", name="Remove").click()
    page.locator("#confirm-ok").click()
    expect(page.get_by_text("The second factor is removed.")).to_be_visible()
    context.close()
    assert [each for each in complaints if "WebSocket" not in each] == []
