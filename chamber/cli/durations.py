"""Durations as options take them."""

import re
from typing import Any

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[int]):
    """Seconds, or a number with its unit: 90s, 30m, 4h, 2d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,9})([smhd]?)", str(value).strip(), re.ASCII)
        if found is None:
            self.fail(f"{value!r} is no duration: write seconds, or for example 30m, 4h or 2d.", param, ctx)
        return int(found[1]) * _UNITS[found[2] or "s"]


class ScenarioDuration(click.ParamType[int]):
    """A duration as scenario files write it: 30s, 10m, 1h30m, 7d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the milliseconds."""
        from scheduling.scenario.fields import TEN_YEARS_MS, duration_of

        if isinstance(value, int):
            return value
        found = duration_of(str(value))
        if found is None or not 0 <= found <= TEN_YEARS_MS:
            self.fail(
                f"{value!r} is no duration from 0s to ten years: write for example 30s, 10m, 24h or 7d.",
                param,
                ctx,
            )
        return found


DURATION = Duration()
DURATION_MS = ScenarioDuration()
