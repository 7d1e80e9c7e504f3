"""An agent of an earlier release is not told keys that it does not know."""

import uuid
from typing import Annotated

import pytest
from pydantic import BaseModel

from agentlink import protocol
from agentlink.protocol import messages
from agentlink.protocol.messages import Ack, Desired, DesiredAttempt
from agentlink.protocol.releases import Since, fitted, numbers
from agentlink.tests.agents import Hand
from agentlink.tests.conftest import Place

ONE = uuid.UUID(int=1)


class LaterAssignment(DesiredAttempt):
    labels: Annotated[dict[str, str], Since("0.2.0")] = {}


class LaterDesired(Desired):
    assignments: tuple[LaterAssignment, ...] = ()


class LaterAck(Ack):
    restored: Annotated[bool, Since("0.2.0")] = False


def desired() -> LaterDesired:
    asked = LaterAssignment(
        workload=ONE, slug="train-1", attempt=ONE, number=1, pods=(), let_go=True, image="i", grace_seconds=1,
        labels={"a": "b"},
    )  # fmt: skip
    return LaterDesired(
        connection=ONE, generation=1, base=None, part=0, last=True, assignments=(asked,), stop=(), forget=()
    )


def encoded(message: BaseModel, release: str) -> str:
    [fit] = fitted([message], release)
    return fit.model_dump_json(exclude_defaults=True)


@pytest.mark.parametrize("release", ["0.1.0", "0.1.99", "0.0.1"])
def test_an_earlier_release_is_not_told_what_came_later(release: str) -> None:
    assert "restored" not in encoded(LaterAck(restored=True), release)
    text = encoded(desired(), release)
    assert "labels" not in text
    assert "train-1" in text, "all else is there"


@pytest.mark.parametrize("release", ["0.2.0", "0.2.1", "1.0.0", "0.10.0", "unknown", "", "1"])
def test_its_own_release_a_later_one_and_one_without_a_number_are_told_all(release: str) -> None:
    assert "restored" in encoded(LaterAck(restored=True), release)
    assert "labels" in encoded(desired(), release)


def test_what_an_agent_knows_is_sent_as_it_is() -> None:
    message = desired()
    assert fitted([message], "0.2.0") == [message]
    assert fitted([message], "0.2.0")[0] is message


def test_a_release_has_three_numbers() -> None:
    assert numbers("0.2.0.dev1") == (0, 2, 0)
    assert numbers("0.2") is None
    with pytest.raises(ValueError, match="'2' is no release"):
        _ = Since("2").numbers


def test_every_field_that_came_later_has_a_default() -> None:
    models = [
        found for found in vars(messages).values() if isinstance(found, type) and issubclass(found, BaseModel)
    ]
    assert len(models) > 20
    needed = [
        f"{model.__name__}.{name}"
        for model in models
        for name, field in model.model_fields.items()
        if field.is_required() and any(isinstance(mark, Since) for mark in field.metadata)
    ]
    assert needed == []


@pytest.mark.django_db
def test_a_conversation_is_fitted_to_the_release_of_its_hello(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def fit(told: list[protocol.ToAgent], release: str) -> list[protocol.ToAgent]:
        asked.append(release)
        return told

    monkeypatch.setattr("agentlink.session.fitted", fit)
    hand = Hand(place.cluster)
    hand.session.news()
    assert asked == ["1", "1"]
