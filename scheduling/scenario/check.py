"""Comparing a result with what its scenario expects: each difference is a sentence with its line.

`nodes` may be a list, which means just these; `preempts` is compared without order; `reason` may be just its
code. A key that an action has not (such as `preempts` of one that waits) is null, and so is what is empty.
"""

from collections import Counter
from collections.abc import Iterator

from .document import DocumentMapping, Scalar, Sequence, Value
from .expectations import COUNT_KEYS, Expectations, FigureExpectation, WorkloadExpectation
from .fields import number_of, show
from .output import Json, Object

UNORDERED = frozenset({"nodes", "preempts"})


def differences(expectations: Expectations, result: Object) -> list[str]:
    """Return a sentence for each thing that is not as expected, in the order of the file."""
    workloads, teams, pools = (_object(result.get(key)) for key in ("workloads", "teams", "pools"))
    found: list[tuple[int, str]] = []
    for expected in expectations.workloads:
        found.extend((expected.line, text) for text in _workload_differences(expected, workloads))
    for figures in expectations.figures:
        actual = pools if figures.team is None else _object(teams.get(figures.team))
        found.extend((figures.line, text) for text in _figure_differences(figures, actual))
    return [f"line {line}: {text}" for line, text in sorted(found, key=lambda each: each[0])]


def _workload_differences(expected: WorkloadExpectation, workloads: Object) -> Iterator[str]:
    actions = Counter(str(_object(workloads.get(name)).get("action")) for name in expected.workloads)
    for key, count in expected.counts:
        counted = sum(actions[action] for action in COUNT_KEYS[key])
        if counted != count:
            yield f"{expected.pattern}: {count} {key} expected, found {counted} of {len(expected.workloads)}"
    for name in expected.workloads:
        outcome = _object(workloads.get(name))
        for key, value in expected.values:
            if not _agrees(key, value, outcome.get(key)):
                actual = _shown_json(_brief(key, outcome.get(key)))
                yield f"{name}: {key} {_shown(value)} expected, found {actual}"


def _figure_differences(expected: FigureExpectation, pools: Object) -> Iterator[str]:
    figures = _object(pools.get(expected.pool))
    of = expected.pool if expected.team is None else f"{expected.team} in {expected.pool}"
    for key, value in expected.values:
        if not _agrees(key, value, figures.get(key)):
            yield f"{of}: {key} {_shown(value)} expected, found {_shown_json(figures.get(key))}"


def _agrees(key: str, expected: Value, actual: Json) -> bool:
    """Whether a value of the result is the expected one, by the conventions of its key."""
    if key == "reason" and isinstance(expected, Scalar):
        return _same(expected, _brief(key, actual))
    if key == "reason" and isinstance(expected, DocumentMapping) and isinstance(actual, dict):
        return all(_same(value, actual.get(name)) for name, value in expected.items.items())
    if key in UNORDERED and isinstance(expected, Sequence) and isinstance(actual, list | dict):
        texts = [item.text for item in expected.items if isinstance(item, Scalar)]
        return len(texts) == len(expected.items) and sorted(texts) == sorted(str(item) for item in actual)
    return _same(expected, actual)


def _same(expected: Value, actual: Json) -> bool:
    """Whether a value that was read is the one that came out, whatever the way it was written."""
    if isinstance(expected, Scalar):
        return _same_scalar(expected, actual)
    if isinstance(expected, Sequence):
        items = actual if isinstance(actual, list) else [] if actual is None else None
        return (
            items is not None
            and len(items) == len(expected.items)
            and all(_same(item, other) for item, other in zip(expected.items, items, strict=True))
        )
    pairs = actual if isinstance(actual, dict) else {} if actual is None else None
    return (
        pairs is not None
        and pairs.keys() == expected.items.keys()
        and all(_same(value, pairs[name]) for name, value in expected.items.items())
    )


def _same_scalar(expected: Scalar, actual: Json) -> bool:
    if expected.is_null or actual is None:
        return expected.is_null and actual in (None, [], {})
    if isinstance(actual, bool):
        return not expected.quoted and expected.text.lower() == str(actual).lower()
    if isinstance(actual, int | float):
        number = number_of(expected)
        return number is not None and float(number) == actual
    return isinstance(actual, str) and expected.text == actual


def _object(value: Json) -> Object:
    return value if isinstance(value, dict) else {}


def _brief(key: str, value: Json) -> Json:
    """A reason as its code, everything else as it is."""
    return value.get("code") if key == "reason" and isinstance(value, dict) else value


def _shown(value: Value) -> str:
    """An expected value as a difference names it."""
    if isinstance(value, Sequence):
        return f"[{', '.join(_shown(item) for item in value.items)}]"
    if isinstance(value, DocumentMapping):
        return f"{{{', '.join(f'{name}: {_shown(item)}' for name, item in value.items.items())}}}"
    return show(value)


def _shown_json(value: Json) -> str:
    """A value of the result, written like an expected one."""
    if isinstance(value, list):
        return f"[{', '.join(_shown_json(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_shown_json(item)}' for name, item in value.items())}}}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
