"""Rows of a plan that are worked out when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class Late(Sequence[T_co]):
    """A tuple that is worked out at the first look at it. Equal, hashed and shown as that tuple."""

    __slots__ = ("_make", "_rows")

    def __init__(self, make: Callable[[], Iterable[T_co]]) -> None:
        self._make: Callable[[], Iterable[T_co]] | None = make
        self._rows: tuple[T_co, ...] = ()

    def rows(self) -> tuple[T_co, ...]:
        """The tuple."""
        make = self._make  # another thread may be at it too
        if make is not None:
            self._rows = tuple(make())
            self._make = None
        return self._rows

    @overload
    def __getitem__(self, index: int) -> T_co: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...

    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        return self.rows()[index]

    def __len__(self) -> int:
        return len(self.rows())

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.rows())

    def __eq__(self, other: object) -> bool:
        return self.rows() == (other.rows() if isinstance(other, Late) else other)

    def __hash__(self) -> int:
        return hash(self.rows())

    def __repr__(self) -> str:
        return repr(self.rows())

    def __reduce__(self) -> tuple[type[tuple[T_co, ...]], tuple[tuple[T_co, ...]]]:
        return tuple, (self.rows(),)
