"""What agents of earlier releases are told: they refuse keys that they do not know.

A field that is added to a message of the server names the release that brought it, and has a default:

    labels: Annotated[dict[Name, Sentence], Since("0.2.0")] = {}

An agent of an earlier release is then sent the message without it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, get_args

from pydantic import BaseModel

Numbers = tuple[int, int, int]
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Since:
    """The first release whose agents know a field."""

    release: str

    @property
    def numbers(self) -> Numbers:
        """The release as numbers, which compare."""
        found = numbers(self.release)
        if found is None:
            raise ValueError(f"{self.release!r} is no release")
        return found


def numbers(release: str) -> Numbers | None:
    """Return a release's three numbers; None where it has none, as with agents of tests."""
    found = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", release)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def fitted(messages: Sequence[M], release: str) -> list[M]:
    """Return the messages as an agent of this release can read them."""
    known = numbers(release)
    if known is None:
        return list(messages)
    return [_fit(message, known) if _concerns(type(message), known) else message for message in messages]


@lru_cache(maxsize=512)
def _concerns(model: type[BaseModel], known: Numbers) -> bool:
    """Return whether a message of this type may hold, at any depth, what the release does not know."""
    inside = {part for field in model.model_fields.values() for part in _models_in(field.annotation)}
    return bool(later_fields(model, known)) or any(_concerns(part, known) for part in inside)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    for part in get_args(annotation):
        yield from _models_in(part)
    if not get_args(annotation) and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation


def later_fields(model: type[BaseModel], known: Numbers) -> dict[str, Any]:
    """Return the fields that an agent of a release does not know, with their defaults."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
        if any(isinstance(mark, Since) and mark.numbers > known for mark in field.metadata)
    }


def _fit(model: M, known: Numbers) -> M:
    update = later_fields(type(model), known)
    for name in type(model).model_fields.keys() - update.keys():
        value = getattr(model, name)
        fit = _fit_value(value, known)
        if fit is not value:
            update[name] = fit
    return model.model_copy(update=update) if update else model


def _fit_value(value: object, known: Numbers) -> object:
    if isinstance(value, BaseModel):
        return _fit(value, known)
    if isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        fit = tuple(_fit(part, known) for part in _models(value))
        return fit if any(new is not old for new, old in zip(fit, value, strict=True)) else value
    return value


def _models(values: tuple[Any, ...]) -> Iterable[BaseModel]:
    return values
