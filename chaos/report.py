"""What is printed at the end."""

from statistics import median

from chaos.run import ChaosResult

MOST_TOLD = 20


def text(result: ChaosResult) -> str:
    """Return the violations with their rows, and the table of faults."""
    lines = [str(violation) for violation in result.violations[:MOST_TOLD]]
    if len(result.violations) > MOST_TOLD:
        lines.append(f"... and {len(result.violations) - MOST_TOLD} more violations.")
    width = max([len(name) for name in result.outcomes] + [len("fault")])
    lines.append(f"{'fault':<{width}}  times  violations  works again after: median  max")
    for name, outcome in sorted(result.outcomes.items()):
        took = outcome.seconds
        times = f"{median(took):23.1f} s {max(took):5.1f} s" if took else f"{'never':>25} {'':>7}"
        lines.append(f"{name:<{width}}  {outcome.times:>5}  {len(outcome.violations):>10}  {times}")
    rest = "never" if result.settled_seconds is None else f"after {result.settled_seconds:.1f} s"
    answers = ", ".join(f"{count} {kind}" for kind, count in sorted(result.answers.items()))
    last = f" (the last to come to rest: {result.last_to_rest})" if result.last_to_rest else ""
    lines.append(f"At rest {rest} without load{last}; {len(result.at_rest)} violations then.")
    lines.append(f"Requests answered: {answers}.")
    for failure, count in sorted(result.failures.items()):
        lines.append(f"  {count} x {failure}")
    lines.append(f"{len(result.violations)} violations.")
    return "\n".join(lines)
