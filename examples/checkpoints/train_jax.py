"""Trains a small model in the style of JAX (a pure step from state to state) in a way that survives a preemption.

It saves every `--every` steps and when it is told to stop, and goes on where the last attempt saved. It says so by a
call to Chamber where the pod was given an address and a token, else by lines that Chamber reads (`read_notes: true`).
"""

import argparse
import json
import os
import pickle
import signal
import sys
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

RANK = int(os.environ.get("RANK", "0"))
ATTEMPT = int(os.environ.get("CHAMBER_ATTEMPT", "1"))
FOLDER = Path(os.environ.get("CHECKPOINT_DIR", "checkpoints"))
NOTICE = Path(os.environ.get("NOTICE", "/run/chamber/notice"))


class TrainState(NamedTuple):
    """Everything that going on needs."""

    step: int
    weights: Any


def tell(state: TrainState, steps: int) -> None:
    """Tell Chamber what is saved and how far it is; that Chamber cannot be reached stops no training."""
    if RANK != 0:
        return
    url, token = os.environ.get("CHAMBER_NOTES_URL"), os.environ.get("CHAMBER_NOTES_TOKEN")
    if not url or not token:
        print(f"::chamber checkpoint step={state.step} attempt={ATTEMPT}::", flush=True)
        print(f"::chamber progress {state.step / steps:.4f}::", flush=True)
        return
    body = {"checkpoint": {"step": state.step, "attempt": ATTEMPT}, "progress": state.step / steps}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        urllib.request.urlopen(request, timeout=5).close()
    except OSError as error:
        print(f"Chamber was not told of step {state.step}: {error}", flush=True)


def save(state: TrainState, steps: int) -> None:
    """Save the state, whole or not at all; only then say so."""
    if RANK == 0:
        new = FOLDER / "new.pickle"
        new.write_bytes(pickle.dumps(TrainState(state.step, np.asarray(state.weights))))
        new.replace(FOLDER / "latest.pickle")
    tell(state, steps)


def restore() -> TrainState:
    """Return the state to go on from: a new one where nothing is saved."""
    latest = FOLDER / "latest.pickle"
    if not latest.exists():
        return TrainState(0, jnp.zeros(8))
    state: TrainState = pickle.loads(latest.read_bytes())
    known = os.environ.get("CHAMBER_RESUMED_FROM", "none")
    print(f"Going on from step {state.step}; Chamber knows of step {known}.", flush=True)
    return TrainState(state.step, jnp.asarray(state.weights))


def loss(weights: Any, inputs: Any) -> Any:
    """Return how far the model is from adding up its inputs."""
    return jnp.mean((inputs @ weights - jnp.sum(inputs, axis=1)) ** 2)


def descend(weights: Any, inputs: Any) -> Any:
    """Return the weights after one step."""
    return weights - 0.01 * jax.grad(loss)(weights, inputs)


train_step = jax.jit(descend)


def main() -> None:
    """Train until all steps are done, or until it is told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--every", type=int, default=100)
    asked = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))

    state = restore()
    chance = np.random.default_rng(state.step)
    noticed = False
    while state.step < asked.steps:
        inputs = jnp.asarray(chance.normal(size=(32, 8)))
        state = TrainState(state.step + 1, train_step(state.weights, inputs))
        told = not noticed and NOTICE.exists() and NOTICE.stat().st_size > 0
        noticed = noticed or told
        if state.step % asked.every == 0 or told or stopping or state.step == asked.steps:
            save(state, asked.steps)
        if stopping:
            sys.exit(128 + stopping[0])  # not 0: it was stopped, and is not done


if __name__ == "__main__":
    main()
