"""What is taken, and cannot start as things are: told with the answer to a submission, in the words of the reason."""

from workloads import known
from workloads.models import Workload
from workloads.quantities import WHOLE_MILLI, gpus_text


def of(workload: Workload) -> list[str]:
    """Return warnings about a new workload (2 queries at most, none within 10 seconds of the last)."""
    text = _larger_than_any_node(workload)
    return [text] if text else []


def _larger_than_any_node(workload: Workload) -> str:
    """Return that a pod asks for more GPUs than any node has of the pools that it accepts; "" where some node has them,
    or none has any.
    """
    asked = workload.gpu_milli or 0
    if asked <= WHOLE_MILLI:
        return ""
    slugs, nodes = known.slugs(), known.largest_nodes()
    accepted = [slugs.get(str(pool), "") for pool in workload.pool_choice] or list(nodes)
    sizes = [
        sum(gpus for gpu_type, gpus in node if not workload.gpu_types or gpu_type in workload.gpu_types)
        for slug in accepted
        for node in nodes.get(slug, ())
    ]
    most = max(sizes, default=0) * WHOLE_MILLI
    if not most or asked <= most:
        return ""
    number, pods = most // WHOLE_MILLI, workload.min_pods * -(-asked // most)
    return (
        f"A pod asks for {gpus_text(asked)}, but the largest node it may use has {number}. Ask for less per pod, and "
        f"for more pods if need be, for example --pods {pods} --gpus {number}."
    )
