"""Pages of the DCGM exporter: what they say is read, and whatever else stands there does no harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.agent import exporter
from agentlink.agent.exporter import ExporterReading, Owner, read
from agentlink.tests.agent.exporters import (
    GR,
    MEMORY,
    NOT_SUPPORTED,
    POWER,
    SM,
    TENSOR,
    UTIL,
    gpu,
    page,
    written,
)

ALL = {SM: 0.42, GR: 0.91, UTIL: 97, TENSOR: 0.31, MEMORY: 70123, POWER: 512.731}


def test_a_page_tells_of_each_gpu_and_who_has_it() -> None:
    found = read(page((gpu(0, "train-0"), ALL), (gpu(1), {UTIL: 0, MEMORY: 4})))
    uuid = gpu(0)["UUID"]
    assert found == [
        ExporterReading(Owner(uuid, uuid, "nlp", "train-0"), 0.42, 0.31, 70123.0, 512.731),
        ExporterReading(Owner(gpu(1)["UUID"], gpu(1)["UUID"], "", ""), 0.0, None, 4.0, None),
    ]


@pytest.mark.parametrize(
    ("values", "busy"),
    [
        ({SM: 0.42, GR: 0.91, UTIL: 97}, 0.42),
        ({GR: 0.91, UTIL: 97}, 0.91),
        ({UTIL: 97}, 0.97),
        ({SM: NOT_SUPPORTED, GR: 0.5}, 0.5),
        ({SM: "NaN", GR: "+Inf", UTIL: 50}, 0.5),
        ({SM: -0.1, UTIL: 101}, None),
        ({MEMORY: 5}, None),
    ],
)
def test_how_busy_it_is_comes_from_the_best_that_is_told(
    values: dict[str, object], busy: float | None
) -> None:
    [reading] = read(page((gpu(0, "train-0"), {MEMORY: 1} | values)))
    assert reading.busy == busy


def test_mig_instances_are_devices_of_their_own_on_one_gpu() -> None:
    text = page((gpu(0, "a", mig="7"), {GR: 0.2}), (gpu(0, "b", mig="8"), {GR: 0.9}))
    owners = [reading.owner for reading in read(text)]
    assert [owner.device.rpartition("/")[2] for owner in owners] == ["7", "8"]
    assert len({owner.gpu for owner in owners}) == 1


def test_a_gpu_that_several_pods_share_is_told_for_each_of_them() -> None:
    found = read(page((gpu(0, "a"), {UTIL: 60}), (gpu(0, "b"), {UTIL: 60})))
    assert [(reading.owner.pod, reading.busy) for reading in found] == [("a", 0.6), ("b", 0.6)]
    assert len({reading.owner.device for reading in found}) == 1


def test_the_exporters_old_names_of_a_pod_are_known() -> None:
    labels = {"UUID": "GPU-1", "pod_name": "a", "pod_namespace": "nlp", "container_name": "c"}
    [reading] = read(page((labels, {UTIL: 5})))
    assert (reading.owner.namespace, reading.owner.pod) == ("nlp", "a")


def test_older_spacing_times_and_odd_values_of_labels_are_read() -> None:
    odd = written(gpu(0, "train-0", modelName='A "quoted" \\ } name'))
    lines = [
        f"{UTIL}{{{odd}}} 7.5e1 1395066363000",
        f'{MEMORY} {{gpu="1", UUID="GPU-2",container="",namespace="",pod=""}} 12',
    ]
    assert [(reading.busy, reading.memory_mib) for reading in read("\r\n".join(lines))] == [
        (0.75, None),
        (None, 12.0),
    ]


BROKEN = [
    "",
    UTIL,
    f"{UTIL} 5",
    f"{UTIL}{{",
    f"{UTIL}{{}} 5",
    f'{UTIL}{{UUID="GPU-1"}}',
    f'{UTIL}{{UUID="GPU-1"}} many',
    f'{UTIL}{{UUID="GPU-1}} 5',
    f"{UTIL}{{UUID=GPU-1}} 5",
    f'{UTIL}{{UUID="{"x" * 100}"}} 5',
    f'{UTIL}{{UUID="GPU-1",pod="{"x" * 300}"}} 5',
    f'{UTIL}{{UUID="GPU-1",pod="{"x" * 5000}"}} 5',
    f'{UTIL}{{gpu="0"}} 5',
    'DCGM_FI_DEV_UNHEARD_OF{UUID="GPU-1"} 5',
    "<html><body>Not found</body></html>",
    "\x00\xff\ud800",
]


@pytest.mark.parametrize("line", BROKEN)
def test_a_line_that_cannot_be_used_is_left_out_and_the_others_read(line: str) -> None:
    [reading] = read(f"{line}\n{page((gpu(0, 'train-0'), {UTIL: 60}))}{line}\n")
    assert reading.busy == 0.6


PIECES = st.sampled_from(
    [UTIL, SM, MEMORY, "{", "}", 'UUID="GPU-1"', '"', ",", "=", "\\", " ", "\n", "1", "#"]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=60).map("".join))
def test_nothing_that_a_page_may_hold_fails(text: str) -> None:
    for reading in read(text):
        assert reading.owner.gpu
        assert reading.busy is None or 0 <= reading.busy <= 1


def test_a_page_without_end_is_read_up_to_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MOST_DEVICES", 3)
    text = page(*((gpu(number, "a"), {UTIL: 1}) for number in range(9)))
    assert len(read(text)) == 3
    monkeypatch.setattr(exporter, "MOST_BYTES", len(page((gpu(0, "a"), {UTIL: 1}))))
    assert len(read(text)) == 1
