"""The rules, the dashboard and the table name metrics that exist, and leave out none."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chamber.metrics.collector import DeploymentCollector

ROOT = Path(__file__).resolve().parents[3]
NAME = re.compile(r"\bchamber_[a-z0-9_]+")
TOKEN = re.compile(
    r"\s*(?:(?P<string>\"[^\"]*\")|(?P<number>[0-9.]+(?:e[0-9]+|[smhd])?)|(?P<word>[a-zA-Z_][a-zA-Z0-9_:]*)"
    r"|(?P<operator>=~|!~|!=|==|<=|>=|[-+*/<>=,])|(?P<bracket>[(){}\[\]]))"
)
FUNCTIONS = {
    "absent",
    "by",
    "count",
    "histogram_quantile",
    "increase",
    "max",
    "min",
    "offset",
    "on",
    "rate",
    "sum",
    "time",
    "vector",
}
OPERATORS = {"and", "or", "unless"}
PARTS = ("_bucket", "_count", "_sum")
OF_AGENTS = "chamber_agent_"


def rules() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())["groups"]:
        yield from group["rules"]


def panels() -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = json.loads((ROOT / "deploy/grafana.json").read_text())["panels"]
    return read


def expressions() -> list[str]:
    shown = [target["expr"] for panel in panels() for target in panel.get("targets", [])]
    return [*(rule["expr"] for rule in rules()), *shown]


def exposed() -> dict[str, set[str]]:
    """Return every metric as Prometheus knows it, with the labels it may have."""
    found: dict[str, set[str]] = {}
    for family in DeploymentCollector().collect():
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        found[family.name + suffix] = set(getattr(family, "_labelnames", ()))
    return found


def base(name: str) -> str:
    """Return a histogram's name from that of one of its series."""
    return next((name.removesuffix(part) for part in PARTS if name.endswith(part)), name)


pytestmark = pytest.mark.django_db


def test_every_metric_that_is_named_exists() -> None:
    named = {base(name) for expression in expressions() for name in NAME.findall(expression)}
    assert named - exposed().keys() == set()


def test_every_metric_is_used_by_a_rule_or_shown() -> None:
    named = {base(name) for expression in expressions() for name in NAME.findall(expression)}
    assert exposed().keys() - named == set()


def test_the_table_lists_exactly_the_metrics_with_their_labels() -> None:
    rows = re.findall(r"^\| `(chamber_\w+)` \| \w+ \| (.*?) \|", (ROOT / "docs/metrics.md").read_text(), re.M)
    # An agent's own are held to their table by its tests.
    listed = {
        name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows if not name.startswith(OF_AGENTS)
    }
    expected = exposed()
    expected["chamber_build_info"] = {"version"}
    assert listed == expected


@pytest.mark.parametrize("expression", expressions())
def test_expressions_hold_together(expression: str) -> None:
    """Brackets match, and every word is a metric, a label, a function or an operator."""
    expected, place, open_brackets = exposed(), 0, []
    labels = set().union(*expected.values()) | {"le", "version", "job"}
    while place < len(expression.rstrip()):
        found = TOKEN.match(expression, place)
        assert found, f"{expression[place:]!r} cannot be read"
        place = found.end()
        bracket, word = found["bracket"], found["word"]
        if bracket and bracket in "({[":
            open_brackets.append(bracket)
        elif bracket:
            assert open_brackets.pop() + bracket in {"()", "{}", "[]"}
        elif word and word not in FUNCTIONS | OPERATORS | labels | {"up"}:
            assert base(word) in expected
    assert not open_brackets


def test_rules_say_what_they_mean_and_how_bad_it_is() -> None:
    found = list(rules())
    assert len({rule["alert"] for rule in found}) == len(found) > 10
    for rule in found:
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert {"summary", "description"} <= rule["annotations"].keys()


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())
