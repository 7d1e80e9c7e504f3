"""`chamber agent`: the files it reads, and what it says about those it cannot use."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentlink.agent import command
from agentlink.agent.command import BadInput, read_nodes
from rig import processes

CSV = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\nn2,96000,393216,8,V100M32\n"


def test_nodes_are_read_from_a_table(tmp_path: Path) -> None:
    file = tmp_path / "nodes.csv"
    file.write_text(CSV)
    first, second = read_nodes(file)
    assert (first.name, first.cpu_milli, first.memory_mib, len(first.devices)) == ("n1", 64000, 262144, 2)
    assert [device.gpu_type for device in second.devices] == ["V100M32"] * 8
    assert second.labels == {"gpu-model": "V100M32"}


def test_nodes_are_read_from_json_as_the_link_carries_them(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(
        json.dumps([{"name": "n1", "devices": [{"index": 0, "gpu_type": "H100", "memory_mib": 81920}]}])
    )
    (node,) = read_nodes(file)
    assert node.devices[0].memory_mib == 81920


def test_devices_that_are_named_as_slices_are_slices_whether_they_say_so_or_not(tmp_path: Path) -> None:
    devices = [
        {"index": 0, "gpu_type": "H100"},
        {"index": 1, "gpu_type": "mig-1g.10gb"},
        {"index": 2, "gpu_type": "mig-1g.10gb", "slicing": "mig", "share_milli": 144},
        {"index": 3, "gpu_type": "T4-SHARED"},
    ]
    file = tmp_path / "nodes.json"
    file.write_text(
        json.dumps([{"name": "n1", "labels": {"nvidia.com/gpu.replicas": "4"}, "devices": devices}])
    )
    (node,) = read_nodes(file)
    assert [(device.slicing, device.share_milli) for device in node.devices] == [
        ("whole", 1000),
        ("mig", 143),
        ("mig", 144),
        ("replicas", 250),
    ]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("n.csv", "sn,gpu\n", "the column 'cpu_milli' is missing"),
        ("n.csv", CSV.replace("64000", "many"), "line 2: cpu_milli is 'many'; it must be a whole number"),
        ("n.csv", CSV.replace("n2,", "n1,"), "the node 'n1' comes twice"),
        ("n.csv", CSV.replace("64000", "-1"), "cpu_milli"),
        ("n.json", "{}", "it is {}; it must be a list."),
        ("n.json", "[{}]", r"\[0\]\.name is missing."),
        ("n.json", "nonsense", "It is not JSON: expected"),
        (
            "n.json",
            '[{"name": "n", "devices": [{"index": 0, "share_milli": 143}]}]',
            "counts as 1000 milli-GPUs",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_place(
    tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(BadInput, match=sentence) as refused:
        read_nodes(file)
    assert str(file) in str(refused.value)


def test_a_file_that_is_not_there_ends_the_command_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    assert command.main(url="http://127.0.0.1:1", token_file=token, simulate=tmp_path / "n.csv") == 2
    assert f"{token} cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "  \n", "two words", "tok\u00e9n"])
def test_a_file_without_a_token_ends_the_command_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    token = tmp_path / "token"
    token.write_text(text)
    assert command.main(url="http://127.0.0.1:1", token_file=token, simulate=tmp_path / "n.csv") == 2
    assert f"{token} holds no token" in capsys.readouterr().err


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_agent_in_order(tmp_path: Path, sign: signal.Signals) -> None:
    nodes, token = tmp_path / "n.csv", tmp_path / "token"
    nodes.write_text(CSV)
    token.write_text("cha_x")
    program = (
        "from pathlib import Path; from agentlink.agent.command import main; import sys;"
        "sys.exit(main(url=sys.argv[1], token_file=Path(sys.argv[2]), simulate=Path(sys.argv[3])))"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        agent = processes.Popen[str](
            [sys.executable, "-c", program, url, str(token), str(nodes)],
            stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3], env=os.environ,
        )  # fmt: skip
        listener.settimeout(90)
        asked, _ = listener.accept()  # it is up, and waits for an answer that never comes
        with asked:
            threading.Timer(0.1, agent.send_signal, (sign,)).start()
            _, said = agent.communicate(timeout=60)
    assert agent.returncode == 0
    assert "The agent has stopped" in said
    assert "Traceback" not in said
