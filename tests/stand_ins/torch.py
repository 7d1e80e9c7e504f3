"""As much of PyTorch as `examples/checkpoints/train_pytorch.py` uses: a model whose weights count its steps."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class _Numbers:
    """Inputs and losses: nothing is computed."""

    def sum(self, **_: Any) -> "_Numbers":
        return self

    def backward(self) -> None:
        """Compute no gradient."""


class _Linear:
    def __init__(self, *_: int) -> None:
        self.weights = [0]

    def __call__(self, inputs: _Numbers) -> _Numbers:
        return inputs

    def parameters(self) -> Iterator[list[int]]:
        yield self.weights

    def state_dict(self) -> dict[str, int]:
        return {"weight": self.weights[0]}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.weights[0] = state["weight"]


class _SGD:
    def __init__(self, parameters: Iterator[list[int]], *, lr: float) -> None:
        self._parameters, self._lr = list(parameters), lr

    def zero_grad(self) -> None:
        """Keep no gradient."""

    def step(self) -> None:
        for parameter in self._parameters:
            parameter[0] += 1

    def state_dict(self) -> dict[str, float]:
        return {"lr": self._lr}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self._lr = state["lr"]


def randn(*_: int) -> _Numbers:
    return _Numbers()


def save(state: Any, path: Path) -> None:
    path.write_bytes(pickle.dumps(state))


def load(path: Path, *, weights_only: bool) -> Any:
    assert weights_only
    return pickle.loads(path.read_bytes())


nn = SimpleNamespace(
    Module=_Linear, Linear=_Linear, functional=SimpleNamespace(mse_loss=lambda output, _: output)
)
optim = SimpleNamespace(Optimizer=_SGD, SGD=_SGD)
