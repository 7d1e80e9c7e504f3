"""What the agent counts of itself, and how its metrics are named."""

import re
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from agentlink.agent import figures
from agentlink.agent.figures import FIGURES, AgentFigures, families
from agentlink.agent.kube.errors import AlreadyExists, Forbidden
from agentlink.agent.kube.resources import EVENTS, JOBS, SELF_REVIEWS
from agentlink.agent.kube.telling import WriteVerb, telling

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"


def samples(made: AgentFigures) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return each sample by its name and the values of its labels."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in families(made)
        for sample in family.samples
    }


def full() -> AgentFigures:
    made = AgentFigures(leads=True, connected=True, heard_at=1_000.0, connections=2)
    made.lost["restart"] += 1
    made.created["Job"] += 3
    made.deleted["Job"] += 1
    made.failed["Job", "create"] += 1
    made.requests["post", "201"] += 4
    made.attempts, made.unacknowledged, made.waiting = (lambda: {"running": 5}), (lambda: 6), (lambda: 7)
    return made


def test_every_figure_is_a_sample_of_its_own() -> None:
    found = samples(full())
    assert found.pop(("chamber_agent_build_info", (figures.own_version(),))) == 1
    assert found == {
        ("chamber_agent_leader", ()): 1,
        ("chamber_agent_connected", ()): 1,
        ("chamber_agent_server_last_heard_timestamp_seconds", ()): 1_000.0,
        ("chamber_agent_connections_total", ()): 2,
        ("chamber_agent_connections_lost_total", ("restart",)): 1,
        ("chamber_agent_objects_created_total", ("Job",)): 3,
        ("chamber_agent_objects_deleted_total", ("Job",)): 1,
        ("chamber_agent_objects_failed_total", ("Job", "create")): 1,
        ("chamber_agent_api_requests_total", ("post", "201")): 4,
        ("chamber_agent_attempts", ("running",)): 5,
        ("chamber_agent_reports_unacknowledged", ()): 6,
        ("chamber_agent_attempts_waiting", ()): 7,
    }


def test_who_stands_by_tells_of_no_attempts() -> None:
    made = full()
    made.stand_by()
    found = samples(made)
    assert found["chamber_agent_leader", ()] == found["chamber_agent_connected", ()] == 0
    assert found["chamber_agent_reports_unacknowledged", ()] == 0
    assert ("chamber_agent_attempts", ("running",)) not in found


def test_every_metric_is_explained_with_its_type_and_labels() -> None:
    rows = re.findall(r"^\| `(chamber_agent_\w+)` \| (\w+) \|([^|]*)\|", DOCS.read_text(), re.MULTILINE)
    explained = {(name, kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert explained == {row_of(family) for family in families(full())}


def row_of(family: Metric) -> tuple[str, str, tuple[str, ...]]:
    sample = family.samples[0]
    return sample.name, "gauge" if family.type == "info" else family.type, tuple(sample.labels)


def test_a_refusal_counts_as_a_failure_and_what_is_there_already_does_not() -> None:
    before = FIGURES.failed.copy(), FIGURES.created.copy()
    with pytest.raises(AlreadyExists), telling(WriteVerb.CREATE, JOBS, "train", "nlp"):
        raise AlreadyExists(409)
    assert (FIGURES.failed, FIGURES.created) == before
    with pytest.raises(Forbidden), telling(WriteVerb.CREATE, JOBS, "train", "nlp"):
        raise Forbidden(403)
    assert FIGURES.failed - before[0] == {("Job", "create"): 1}
    assert FIGURES.created == before[1]


def test_what_is_created_is_a_line_and_questions_and_events_are_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = FIGURES.created.copy()
    with caplog.at_level("INFO"):
        with telling(WriteVerb.CREATE, JOBS, "train", "nlp"):
            pass
        with telling(WriteVerb.CREATE, SELF_REVIEWS, "", None):
            pass
        with telling(WriteVerb.CREATE, EVENTS, "train.1", "nlp"):
            pass
        with telling(WriteVerb.CHANGE, JOBS, "train", "nlp"):
            pass
    assert caplog.messages == ["Created Job nlp/train."]
    said = vars(caplog.records[0])
    assert (said["kind"], said["namespace"], said["object"]) == ("Job", "nlp", "train")
    assert FIGURES.created - before == {"Job": 1, "Event": 1}
