"""How much one person, token and address may ask for, and how what is more is answered."""

from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.cache import cache, caches
from django.test import Client

from agentlink.models import AgentToken
from chamber import counts, limiting, limits, logs
from chamber.models import Scope, ServiceAccount, User
from chamber.services import actions as services
from chamber.tokens import TokenRequest, create_token
from teams.actors import Actor
from teams.models import Role, Team
from teams.tests.factories import make_org, make_team, member
from workloads.models import Status, Workload

pytestmark = pytest.mark.stores

API = "/api/v1/"
ME = f"{API}me/"
SUBMISSION = {"name": "train", "team": "nlp", "image": "registry.example/train:1"}


@pytest.fixture(autouse=True)
def _a_window_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    monkeypatch.setattr(counts, "time", SimpleNamespace(time=lambda: 3_600_000.0 + 18, monotonic=lambda: 1.0))
    monkeypatch.setattr(counts, "_ask_from", 0.0)


@pytest.fixture
def nlp(db: None) -> Team:
    return make_team(make_org("Acme"), "NLP")


@pytest.fixture
def ada(nlp: Team) -> User:
    return member(nlp, Role.RESEARCHER, "ada")


def bound(monkeypatch: pytest.MonkeyPatch, **most: int) -> None:
    for name, value in most.items():
        monkeypatch.setitem(settings.LIMITS, name, value)


def bearer(user: User, scope: Scope = Scope.ADMIN) -> dict[str, Any]:
    return {"Authorization": f"Bearer {create_token(user=user, name='x', scope=scope, days=1)[1]}"}


def signed_in(user: User, **kwargs: Any) -> Client:
    client = Client(**kwargs)
    client.force_login(user)
    return client


def submit(headers: dict[str, Any], *more: dict[str, Any], key: str = "") -> Any:
    body: Any = {"workloads": [SUBMISSION, *more]} if more else SUBMISSION
    headers = headers | ({"Idempotency-Key": key} if key else {})
    return Client().post(f"{API}workloads/", body, "application/json", headers=headers)


def test_a_token_is_bounded_and_its_answers_say_what_is_left(
    client: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, token=2, person=5)
    token = bearer(ada)
    answers = [client.get(ME, headers=token) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0]["RateLimit-Policy"] == '"person";q=5;w=60, "token";q=2;w=60'
    assert answers[0]["RateLimit"] == '"person";r=4;t=42, "token";r=1;t=42'
    refused = answers[2]
    assert (refused["Retry-After"], refused["Content-Type"]) == ("42", "application/problem+json")
    assert refused.json()["code"] == "too-many-requests"
    assert refused.json()["detail"] == (
        "This token has sent more than 2 requests within a minute, the most that are allowed. Try again in 42 seconds."
    )


def test_a_person_is_bounded_with_all_tokens_and_sessions_together(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, person=3)
    statuses = [
        Client().get(ME, headers=bearer(ada)).status_code,
        Client().get(ME, headers=bearer(ada)).status_code,
        signed_in(ada).get("/settings/").status_code,
        signed_in(ada, REMOTE_ADDR="192.0.2.7").get("/settings/").status_code,
        Client().get(ME, headers=bearer(ada)).status_code,
    ]
    assert statuses == [200, 200, 200, 429, 429]


def test_a_page_says_it_in_a_sentence_and_asks_for_nothing(
    ada: User, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    bound(monkeypatch, person=1)
    client = signed_in(ada)
    assert client.get("/settings/").status_code == 200
    with django_assert_num_queries(2):  # whose session it is
        answer = client.get("/settings/")

    assert (answer.status_code, answer["Retry-After"]) == (429, "42")
    assert "You have sent more than 1 request within a minute" in answer.content.decode()
    assert answer["RateLimit"] == '"person";r=0;t=42'
    part = client.get("/settings/", headers={"HX-Request": "true"})
    assert (part.status_code, "Try again in 42 seconds" in part["HX-Trigger"]) == (429, True)


def test_what_open_pages_fetch_by_themselves_is_bounded_apart(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, person=1, parts=2)
    client = signed_in(ada)
    part = {"X-Chamber-Fragment": "1"}
    statuses = [client.get("/settings/", headers=part).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert client.get("/settings/").status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/sign-in/", "/welcome/nothing/", f"{API}schema/", f"{API}me/", "/livez", "/readyz", "/no/such/page/"],
)
def test_who_is_not_signed_in_is_bounded_by_address(
    db: None, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    bound(monkeypatch, anonymous=2)
    statuses = [Client(REMOTE_ADDR="192.0.2.7").get(path).status_code for _ in range(3)]
    assert 429 not in statuses[:2]
    assert statuses[2] == 429
    assert Client(REMOTE_ADDR="192.0.2.8").get(path).status_code != 429


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Basic x"},
        {"Authorization": "Bearer chb_nothing"},
        {"Authorization": "Bearer cha_nothing"},
        {"Cookie": "sessionid=nothing"},
    ],
)
def test_credentials_that_are_none_count_as_none(
    db: None, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    bound(monkeypatch, anonymous=2)
    statuses = [Client(REMOTE_ADDR="192.0.2.7").get(ME, headers=headers).status_code for _ in range(3)]
    assert statuses == [401, 401, 429]


@pytest.mark.parametrize("cookie", [{}, {"Cookie": "sessionid=nothing"}])
@pytest.mark.parametrize("path", ["/sign-in/", ME, f"{API}schema/"])
def test_who_says_that_it_fetches_a_part_counts_all_the_same(
    db: None, monkeypatch: pytest.MonkeyPatch, cookie: dict[str, str], path: str
) -> None:
    bound(monkeypatch, anonymous=2)
    headers = {"X-Chamber-Fragment": "1", **cookie}
    statuses = [Client(REMOTE_ADDR="192.0.2.7").get(path, headers=headers).status_code for _ in range(3)]
    assert (429 in statuses[:2], statuses[2]) == (False, 429)


def test_a_token_that_says_so_counts_for_its_address_too(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, address=1)
    headers = {"X-Chamber-Fragment": "1", "Cookie": "sessionid=nothing", **bearer(ada)}
    assert [Client().get(ME, headers=headers).status_code for _ in range(2)] == [200, 429]


def test_a_header_that_means_nothing_to_pages_spares_nobody(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, person=1)
    client = signed_in(ada)
    for path in ("/settings/", ME):
        cache.clear()
        answers = [client.get(path, headers={"Authorization": "Basic x"}).status_code for _ in range(2)]
        assert answers == [200, 429]


def test_all_that_comes_from_one_address_is_bounded(
    ada: User, nlp: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, address=2)
    other = member(nlp, Role.VIEWER, "other")
    clients = [signed_in(user, REMOTE_ADDR="2001:db8::1") for user in (ada, other, ada)]
    assert [client.get("/settings/").status_code for client in clients] == [200, 200, 429]
    assert signed_in(ada, REMOTE_ADDR="2001:db8:0:1::1").get("/settings/").status_code == 200


def test_the_link_of_agents_is_not_held_up(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, address=1, anonymous=1)
    secret = AgentToken.new_secret()
    statuses = [
        Client().post(
            "/agent/v1/sync", "[]", "application/json", headers={"Authorization": f"Bearer {secret}"}
        )
        for _ in range(3)
    ]
    assert [answer.status_code for answer in statuses] == [401, 401, 401]


def test_probes_are_answered_while_redis_is_away(
    db: None, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    bound(monkeypatch, anonymous=2)
    away = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}
    settings.CACHES = {**settings.CACHES, "default": away}
    caches["process"].clear()
    assert [Client().get("/livez").status_code for _ in range(3)] == [200, 200, 429]


def test_each_process_counts_for_itself_while_redis_is_away_and_says_so_once(
    ada: User, monkeypatch: pytest.MonkeyPatch, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(counts, "_away", logs.Lasting())
    bound(monkeypatch, person=2)
    token = bearer(ada)
    away = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}
    settings.CACHES = {**settings.CACHES, "default": away}
    caches["process"].clear()
    assert [Client().get(ME, headers=token).status_code for _ in range(3)] == [200, 200, 429]
    counts.cached(lambda cache: cache.get("x"))
    said = [record.getMessage() for record in caplog.records if record.name == "chamber.counts"]
    assert said == [
        "Redis does not answer (ConnectionError): requests and tries are counted by this process alone."
    ]


def test_a_limit_of_0_is_none(client: Client, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, person=0, token=0, address=0)
    answer = client.get(ME, headers=bearer(ada))
    assert answer.status_code == 200
    assert "RateLimit" not in answer


# Submissions, and what is open


def test_submissions_are_bounded_by_workloads_an_hour(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, submissions=3)
    token = bearer(ada)
    assert submit(token).status_code == 201
    refused = submit(token, SUBMISSION, SUBMISSION)
    assert (refused.status_code, refused["Retry-After"]) == (429, "3582")
    assert refused.json()["detail"] == (
        "You have submitted more than 3 workloads within an hour, the most that are allowed. Try again in 60 minutes."
    )
    assert '"submissions";q=3;w=3600' in refused["RateLimit-Policy"]
    assert submit(token, SUBMISSION).status_code == 201, "what was refused counts nothing"
    assert submit(token).status_code == 429
    assert Workload.objects.count() == 3


def test_what_is_refused_or_answered_again_counts_as_no_submission(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, submissions=2)
    token = bearer(ada)
    for _ in range(3):
        assert (
            submit({**token, "x": "1"}, {"name": "x", "team": "nlp", "image": "x", "gpus": 1.3}).status_code
            == 422
        )
    first = submit(token, key="again").json()
    assert [submit(token, key="again").json()["slug"] for _ in range(3)] == [first["slug"]] * 3
    assert submit(token).status_code == 201
    assert submit(token).status_code == 429


def test_more_at_once_than_an_hour_allows_is_never_allowed(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, submissions=1)
    refused = submit(bearer(ada), SUBMISSION)
    assert refused.status_code == 422
    assert refused.json()["detail"] == (
        "2 workloads at once are more than the 1 that are allowed within an hour."
    )


def test_open_workloads_are_bounded(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, open=2)
    token = bearer(ada)
    assert submit(token, SUBMISSION).status_code == 201
    refused = submit(token)
    assert (refused.status_code, refused["Retry-After"]) == (429, "60")
    assert refused.json()["detail"] == (
        "You have 2 open workloads of at most 2. Cancel some, or wait until some have ended."
    )
    Workload.objects.filter(pk=Workload.objects.all()[0].pk).update(
        status=Status.CANCELLED, finished_at="2026-01-01T00:00:00Z"
    )
    refused = submit(token, SUBMISSION)
    assert "You have 1 open workload of at most 2, and this would add 2 more." in refused.json()["detail"]
    assert submit(token).status_code == 201


def test_the_form_keeps_what_was_typed_and_says_when(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, open=1)
    client = signed_in(ada)
    form = {**SUBMISSION, "job_class": "experiment", "pods": "1", "gpus": "1", "tier": "normal", "tab": ""}
    assert client.post("/workloads/submit/", {**form, "name": "first"}).status_code == 302
    answer = client.post("/workloads/submit/", {**form, "name": "kept-name"})
    assert (answer.status_code, answer["Retry-After"]) == (429, "60")
    text = answer.content.decode()
    assert "You have 1 open workload of at most 1" in text
    assert 'value="kept-name"' in text


def test_streams_are_bounded_for_each_process(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, streams=1)
    slug = submit(bearer(ada)).json()["slug"]
    address = f"{API}workloads/{slug}/watch/"
    with limits.streaming(ada.pk):
        refused = Client().get(address, headers=bearer(ada))
        assert (refused.status_code, refused["Retry-After"]) == (429, "60")
        assert (
            refused.json()["detail"] == "You have 1 stream open already, the most here: close some of them."
        )
    assert Client().get(address, headers=bearer(ada)).status_code == 200
    assert not limits._streams


# Service accounts


@pytest.fixture
def ci(nlp: Team) -> ServiceAccount:
    return services.create_service(by=Actor.system("test"), name="ci", team=nlp, role=Role.RESEARCHER)


def key_of(account: ServiceAccount) -> dict[str, str]:
    by, wanted = Actor.system("test"), TokenRequest("runner", Scope.SUBMIT)
    return {"Authorization": f"Bearer {services.make_token(by=by, account=account, wanted=wanted)[1]}"}


def test_a_service_account_may_be_given_more(ci: ServiceAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, person=1, token=1, submissions=1, open=1)
    token = key_of(ci)
    raised = {"requests_per_minute": 4, "submissions_per_hour": 3, "open_workloads": 2}
    services.set_limits(by=Actor.system("test"), account=ci, limits=raised)

    statuses = [submit(token).status_code for _ in range(3)]

    assert statuses == [201, 201, 429], "two may be open"
    assert [Client().get(ME, headers=token).status_code for _ in range(2)] == [200, 429]


def test_looking_up_its_limits_costs_no_query(
    ci: ServiceAccount, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    bound(monkeypatch, person=100, token=100)
    token = key_of(ci)
    Client().get(f"{API}version/", headers=token)
    with django_assert_num_queries(1):  # the token with its account
        Client().get(f"{API}version/", headers=token)


def test_only_an_organisation_admin_gives_it_more(ci: ServiceAccount, nlp: Team) -> None:
    lena = member(nlp, Role.LEAD, "lena")
    olga = member(nlp.parent or nlp, Role.ORG_ADMIN, "olga")
    body = {"limits": {"requests_per_minute": 6000}}
    path = f"{API}service-accounts/ci/"
    refused = Client().patch(path, body, "application/json", headers=bearer(lena))
    assert (refused.status_code, "set by organisation admins" in refused.json()["detail"]) == (403, True)
    changed = Client().patch(path, body, "application/json", headers=bearer(olga))
    assert changed.json()["limits"] == {"requests_per_minute": 6000}
    wrong = Client().patch(
        path, {"limits": {"streams": True, "open_workloads": 0}}, "application/json", headers=bearer(olga)
    )
    assert set(wrong.json()["errors"]) == {"limits.streams", "limits.open_workloads"}
    back = Client().patch(
        path, {"limits": {"requests_per_minute": None}}, "application/json", headers=bearer(olga)
    )
    assert back.json()["limits"] == {}
    page = signed_in(olga)
    answer = page.post("/settings/service-accounts/ci/limits/", {"streams": "40"})
    assert answer.status_code == 302
    assert "40 at most" in page.get("/settings/service-accounts/ci/").content.decode()
    answer = page.post("/settings/service-accounts/ci/limits/", {"streams": "0"})
    assert answer.status_code == 422
    assert signed_in(lena).post("/settings/service-accounts/ci/limits/", {"streams": "4"}).status_code == 403
    assert "Limits of its own" not in signed_in(lena).get("/settings/service-accounts/ci/").content.decode()


def test_sockets_are_requests_of_their_address(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, address=1)

    async def accept(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    async def opened(*headers: tuple[bytes, bytes], client: str = "192.0.2.7") -> str:
        said: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            said.append(message)

        scope = {"type": "websocket", "client": (client, 1), "headers": headers}
        await limiting.SocketLimits(accept)(scope, None, send)  # type: ignore[arg-type]
        return str(said[0]["type"])

    async def all_of_them() -> list[str]:
        through = (b"x-forwarded-for", b"198.51.100.9")
        return [
            await opened(),
            await opened(through),
            await opened(client="192.0.2.8"),
        ]

    assert async_to_sync(all_of_them)() == ["websocket.accept", "websocket.close", "websocket.accept"]
