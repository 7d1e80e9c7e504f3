"""What the load of `make chaos` tells of the answers that it got."""

import httpx
import pytest

from chaos import report
from chaos.load import failure
from chaos.run import ChaosResult


@pytest.mark.parametrize(
    ("method", "path", "answer", "told"),
    [
        (
            "POST",
            "workloads/",
            httpx.Response(503, json={"code": "busy", "detail": "The database did not answer."}),
            "POST workloads/ 503 (busy: The database did not answer.)",
        ),
        (
            "POST",
            "workloads/train-7/cancel/",
            httpx.Response(500, json={"detail": "It failed."}),
            "POST workloads/NAME/cancel/ 500 (It failed.)",
        ),
        (
            "GET",
            "workloads/?limit=50",
            httpx.Response(502, text="<html><h1>502</h1>\n<p>Bad Gateway</p></html>"),
            "GET workloads/ 502 (502 Bad Gateway)",
        ),
        ("GET", "teams/gamma/", httpx.Response(504), "GET teams/NAME/ 504 (an empty body)"),
        ("GET", "teams/", httpx.Response(500, json=["no problem"]), 'GET teams/ 500 (["no problem"])'),
    ],
)
def test_a_failed_answer_is_told_by_route_and_cause(
    method: str, path: str, answer: httpx.Response, told: str
) -> None:
    assert failure(method, path, answer) == told


def test_the_report_lists_failed_answers_with_their_number() -> None:
    result = ChaosResult(
        settled_seconds=1.0, answers={"2xx": 9, "5xx": 3}, failures={"GET teams/ 503 (busy)": 3}
    )

    assert "  3 x GET teams/ 503 (busy)" in report.text(result).splitlines()
