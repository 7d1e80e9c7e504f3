"""Changing a module at the moment when it is imported, before anybody has taken a name out of it."""

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Change = Callable[[Any], None]


def when_imported(changes: Mapping[str, Change]) -> None:
    """Have each change called with its module as soon as that is imported in this process."""
    sys.meta_path.insert(0, _Finder(dict(changes)))


class _Finder(MetaPathFinder):
    """Finds the modules that are to be changed, by asking all the others."""

    def __init__(self, changes: dict[str, Change]) -> None:
        self._changes = changes

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the import system's signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the module's spec with a loader that changes it afterwards; None for all others."""
        change = self._changes.pop(fullname, None)
        spec = importlib.util.find_spec(fullname) if change is not None else None
        if spec is None or spec.loader is None or change is None:
            return None
        load = spec.loader.exec_module

        def load_and_change(module: ModuleType) -> None:
            load(module)
            change(module)

        spec.loader.exec_module = load_and_change  # type: ignore[method-assign]
        return spec
