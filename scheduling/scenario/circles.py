"""Workloads that wait for each other: a circle in what depends on what."""

from collections.abc import Iterator, Mapping, Sequence


def first_circle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The first circle found, each before the one that it needs; empty where there is none."""
    done: set[str] = set()
    for start in needs:
        way: dict[str, Iterator[str]] = {} if start in done else {start: iter(needs[start])}
        while way:
            name = next(reversed(way))
            needed = next(way[name], None)
            if needed is None:
                done.add(name)
                del way[name]
            elif needed in way:
                names = list(way)
                return names[names.index(needed) :]
            elif needed in needs and needed not in done:
                way[needed] = iter(needs[needed])
    return []
