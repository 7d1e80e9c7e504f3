"""Pages as DCGM exporter writes them, for tests."""

from collections.abc import Mapping
from typing import Any

HELP = {
    "DCGM_FI_DEV_SM_CLOCK": "SM clock frequency (in MHz).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "DCGM_FI_PROF_SM_ACTIVE": "The ratio of cycles an SM has at least 1 warp assigned.",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "Ratio of time the graphics engine is active.",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "Ratio of cycles the tensor (HMMA) pipe is active.",
}
SM, GR, UTIL = "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"
TENSOR, MEMORY, POWER = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE"
NOT_SUPPORTED = 9223372036854775794


def gpu(number: int, pod: str = "", *, mig: str = "", namespace: str = "nlp", **more: str) -> dict[str, str]:
    """Return the labels of a GPU, or of its MIG instance `mig`, that a pod has."""
    labels = {
        "gpu": str(number),
        "UUID": f"GPU-{number:08d}-dead-beef-cafe-34319582d595",
        "pci_bus_id": f"00000000:{number + 16:X}:00.0",
        "device": f"nvidia{number}",
        "modelName": "NVIDIA H100 80GB HBM3",
    }
    labels |= {"GPU_I_PROFILE": "1g.10gb", "GPU_I_ID": mig} if mig else {}
    labels |= {"Hostname": "gpu-node-1", "DCGM_FI_DRIVER_VERSION": "580.105.08"}
    return labels | {"container": "worker" if pod else "", "namespace": pod and namespace, "pod": pod} | more


def page(*devices: tuple[Mapping[str, str], Mapping[str, Any]]) -> str:
    """Return a page with these values of these devices, by metric."""
    lines = []
    for name, text in HELP.items():
        rows = [(labels, values[name]) for labels, values in devices if name in values]
        if rows:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
        lines += [f"{name}{{{written(labels)}}} {value}" for labels, value in rows]
    return "".join(f"{line}\n" for line in lines)


def written(labels: Mapping[str, str]) -> str:
    """Return labels as the text format writes them."""
    escaped = {
        name: value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        for name, value in labels.items()
    }
    return ",".join(f'{name}="{value}"' for name, value in escaped.items())
