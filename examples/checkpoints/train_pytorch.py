"""Trains a small model with PyTorch in a way that survives a preemption.

It saves every `--every` steps and when it is told to stop, says so by lines that Chamber reads (`read_notes: true`),
and goes on where the last attempt saved.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

import torch

RANK = int(os.environ.get("RANK", "0"))
ATTEMPT = os.environ.get("CHAMBER_ATTEMPT", "1")
FOLDER = Path(os.environ.get("CHECKPOINT_DIR", "checkpoints"))
NOTICE = Path(os.environ.get("NOTICE", "/run/chamber/notice"))


def say(note: str) -> None:
    """Tell Chamber: one process of a gang speaks for all."""
    if RANK == 0:
        print(f"::chamber {note}::", flush=True)


def save(step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Save everything that going on needs, whole or not at all; only then say so."""
    if RANK == 0:
        state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        new = FOLDER / "new.pt"
        torch.save(state, new)
        new.replace(FOLDER / "latest.pt")
    say(f"checkpoint step={step} attempt={ATTEMPT}")


def restore(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Return the step to go on from, with the model as it was then; 0 where nothing is saved."""
    latest = FOLDER / "latest.pt"
    if not latest.exists():
        return 0
    state = torch.load(latest, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    known = os.environ.get("CHAMBER_RESUMED_FROM", "none")
    print(f"Going on from step {state['step']}; Chamber knows of step {known}.", flush=True)
    return int(state["step"])


def main() -> None:
    """Train until all steps are done, or until it is told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--every", type=int, default=100)
    asked = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = restore(model, optimizer)
    noticed = False
    while step < asked.steps:
        inputs = torch.randn(32, 8)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        told = not noticed and NOTICE.exists() and NOTICE.stat().st_size > 0
        noticed = noticed or told
        if step % asked.every == 0 or told or stopping or step == asked.steps:
            save(step, model, optimizer)
            say(f"progress {step / asked.steps:.4f}")
        if stopping:
            sys.exit(128 + stopping[0])  # not 0: it was stopped, and is not done


if __name__ == "__main__":
    main()
