"""Addresses at which there is nothing."""

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/api/v1/nope/", "/api/v1/workloads/..%2Fx/"])
def test_a_program_is_answered_with_a_problem(client: Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
    assert answer.json()["code"] == "not-found"


def test_a_browser_is_answered_with_a_page(client: Client) -> None:
    answer = client.get("/nope/")
    assert (answer.status_code, answer["Content-Type"]) == (404, "text/html; charset=utf-8")
