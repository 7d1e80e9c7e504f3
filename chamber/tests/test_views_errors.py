"""Addresses at which there is nothing."""

import logging

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from chamber import logs, views_errors
from chamber.models import User

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/api/v1/nope/", "/api/v1/workloads/..%2Fx/"])
def test_a_program_is_answered_with_a_problem(client: Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
    assert answer.json()["code"] == "not-found"


def test_a_browser_is_answered_with_a_page(client: Client) -> None:
    answer = client.get("/nope/")
    assert (answer.status_code, answer["Content-Type"]) == (404, "text/html; charset=utf-8")


def test_who_reads_an_address_of_forms_is_told_so_and_programs_only_get_the_status(client: Client) -> None:
    client.force_login(User.objects.create_user("ada"))
    path = "/workloads/bert-1/cancel/"
    answer = client.get(path, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert "only takes what a form sends" in answer.content.decode()
    assert client.get(path, headers={"accept": "*/*"}).content == b""


BROWSER = {"host": "evil.example:81", "accept": "text/html,*/*;q=0.8"}
UNKNOWN = (
    "This server does not answer under the name 'evil.example:81'. Its operator adds names to CHAMBER_HOSTS."
)


def test_under_a_name_that_is_not_its_own_it_says_which_setting_names_them(client: Client) -> None:
    page = client.get("/", headers=BROWSER)
    told = page.content.decode().replace("&#x27;", "'")
    assert (page.status_code, UNKNOWN in told, "Go to the overview" in told) == (400, True, False)
    problem = client.get("/api/v1/workloads/", headers=BROWSER)
    assert (problem.status_code, problem["Content-Type"]) == (400, "application/problem+json")
    assert (problem.json()["detail"], problem.json()["code"]) == (UNKNOWN, "unknown-host")
    probe = client.get("/readyz", headers={"host": "evil.example:81"})
    assert (probe.status_code, probe.content.decode()) == (400, f"{UNKNOWN}\n")
    assert "'a b'" in client.get("/readyz", headers={"host": "a b"}).content.decode()


def test_the_log_tells_of_names_that_are_not_its_own_once_in_a_while_and_without_a_traceback(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views_errors, "_unknown_told", logs.Seldom(every_seconds=60))
    for number in range(3):
        client.get("/", headers={"host": f"evil{number}.example\n"})
    (record,) = [each for each in caplog.records if each.name == views_errors.__name__]
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert "'evil0.example\\n'" in record.getMessage()
    assert "CHAMBER_HOSTS" in record.getMessage()


def test_a_program_whose_request_cannot_be_read_is_answered_with_a_problem(
    client: Client, settings: Settings
) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 1
    client.force_login(User.objects.create_user("ada"))
    answer = client.get("/api/v1/workloads/?state=a&state=b&team=c")
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert answer.json()["code"] == "bad-request"
