"""What a page offers somebody they may do: every link and button of every page, followed and pressed as each role."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from pytest_django.fixtures import Settings

from tests.test_role_walk import PROVIDER, ROWS, URLS, World

ROLES = ["stranger", "viewer", "owner", "lead", "admin", "org-admin", "operator", "auditor"]
ANEW = {"csrfmiddlewaretoken", "token"}
"""What is another each time that a page is shown."""
NO_PAGES = {"account_login", "account_logout"}
ENDS = frozenset({403, 404, 405, 500})
"""What nobody should get who did only what a page offers."""


@dataclass
class Offer:
    """A link, or a form with what it holds before it is filled in; `presses` are its buttons that say something."""

    method: str
    address: str
    fields: dict[str, str] = field(default_factory=dict)
    presses: list[dict[str, str]] = field(default_factory=list)

    def bodies(self) -> Iterator[dict[str, str]]:
        for press in self.presses or [{}]:
            yield self.fields | press


class Reader(HTMLParser):
    """Collects what a page offers."""

    def __init__(self) -> None:
        super().__init__()
        self.offers: list[Offer] = []
        self._form: Offer | None = None
        self._select, self._told = "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if tag == "form" and given.get("method") != "dialog":
            self._form = Offer(given.get("method", "get").upper(), given.get("action", ""))
            self.offers.append(self._form)
        for key, method in (
            ("href", "GET"),
            ("hx-get", "GET"),
            ("data-live-url", "GET"),
            ("hx-post", "POST"),
        ):
            if key in given and (tag, key) != ("link", "href"):
                # What is sent from within a form sends the form's fields.
                fields = self._form.fields if self._form is not None and method == "POST" else {}
                presses = [json.loads(given["hx-vals"])] if "hx-vals" in given and method == "POST" else []
                self.offers.append(Offer(method, given[key], fields, presses))
        if self._form is not None:
            self._in_form(self._form, tag, given)

    def _in_form(self, form: Offer, tag: str, given: dict[str, str]) -> None:
        name = given.get("name", "")
        if tag == "button" and name:
            form.presses.append({name: given.get("value", "")})
        elif tag == "input" and name and given.get("type") not in {"checkbox", "radio"}:
            form.fields[name] = given.get("value", "")
        elif tag == "input" and name and "checked" in given:
            form.fields[name] = given.get("value", "on")
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and ("selected" in given or self._select not in form.fields):
            form.fields[self._select] = given.get("value", "")
            self._told = "value" not in given

    def handle_data(self, data: str) -> None:
        if self._told and self._form is not None:
            self._form.fields[self._select] = data.strip()
        self._told = False

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "select":
            self._select = ""


def offers_of(page: str, answer: Any) -> list[Offer]:
    reader = Reader()
    reader.feed(answer.content.decode())
    for offer in reader.offers:
        offer.address = urljoin(page, offer.address or page)
    here = (offer for offer in reader.offers if urlsplit(offer.address).scheme == "")
    return [offer for offer in here if not offer.address.startswith(("/static/", "/sign-out", "/api/"))]


@pytest.fixture
def world(db: None, settings: Settings) -> World:
    settings.CHAMBER_RING = "builtins.list"
    cache.clear()
    settings.IDENTITY_PROVIDERS = (PROVIDER,)
    return World()


def taken(client: Client, method: str, address: str, body: dict[str, str]) -> int:
    """Return what is answered to an offer that is taken; what it changed is undone."""
    with transaction.atomic():
        send: dict[str, Any] = {"data": body} if method == "POST" else {}
        status: int = getattr(client, method.lower())(address, **send).status_code
        transaction.set_rollback(True)
    return status


def pages_for(world: World, client: Client) -> Iterator[tuple[str, Any]]:
    """Yield every page that there is for somebody: by the names of addresses, then by the links between them."""
    names = [name for name in URLS if not name.startswith("api-") and ("GET", name) in ROWS]
    found = [world.address(name) for name in names if name not in NO_PAGES]
    seen = set()
    while found:
        page = found.pop(0)
        if urlsplit(page).path in seen:
            continue
        seen.add(urlsplit(page).path)
        answer = client.get(page)
        if answer.status_code == 200 and not answer.streaming and "html" in answer.headers["Content-Type"]:
            found += [offer.address for offer in offers_of(page, answer) if offer.method == "GET"]
            yield page, answer


@pytest.mark.parametrize("actor", ROLES)
def test_nobody_is_offered_what_they_may_not_do(world: World, actor: str) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(world.users[actor])
    tried: set[tuple[object, ...]] = set()
    refused = []
    for page, answer in pages_for(world, client):
        for offer in offers_of(page, answer):
            for body in offer.bodies():
                said = sorted((name, text) for name, text in body.items() if name not in ANEW)
                # One link of each kind is followed: that another order is asked for is the same page.
                where = urlsplit(offer.address)
                key = (offer.method, where.path, *sorted(parse_qs(where.query)), *said)
                if key not in tried:
                    tried.add(key)
                    status = taken(client, offer.method, offer.address, body)
                    refused += [(page, offer.method, offer.address, status)] * (status in ENDS)
    assert refused == []
    # Whoever has no role at all is offered next to nothing.
    assert len(tried) > (3 if actor == "stranger" else 20)
