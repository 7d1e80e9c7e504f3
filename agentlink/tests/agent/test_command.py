"""`chamber agent`: the files it reads, and what it says about those it cannot use."""

import json
from pathlib import Path

import pytest

from agentlink.agent import command
from agentlink.agent.command import BadInput, read_nodes

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


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("n.csv", "sn,gpu\n", "the column 'cpu_milli' is missing"),
        ("n.csv", CSV.replace("64000", "many"), "invalid literal"),
        ("n.csv", CSV.replace("n2,", "n1,"), "the node 'n1' comes twice"),
        ("n.csv", CSV.replace("64000", "-1"), "cpu_milli"),
        ("n.json", "{}", "valid array"),
        ("n.json", "[{}]", "0.name: Field required"),
        ("n.json", "nonsense", "Invalid JSON"),
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
