"""Addresses at which there is nothing."""

import pytest
from django.test import Client

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
