"""The tree of teams as arrays: for a look at many leaves in one step (section 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.quota.tree import Tree

Ints = NDArray[np.int64]


class TreeArrays:
    """The tree as arrays: ``rows[leaf]`` is the way down to a leaf, filled up with -1; ``parents`` of each branch."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        depth = max(len(path) for path in tree.paths)
        rows = [(*path, *(-1,) * (depth - len(path))) for path in tree.paths]
        self.rows: Ints = np.array(rows, dtype=np.int64).reshape(len(tree), depth)
        self.parents: Ints = np.array(tree.parents, dtype=np.int64)

    def summed(self, figures: Ints) -> Ints:
        """By branch the sum over its children."""
        sums = np.bincount(self.parents[1:], figures[1:], len(self.parents))
        return sums.astype(np.int64)  # Exact: no pool has 2^53 milli-GPUs.
