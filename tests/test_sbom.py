"""The bill of materials names all that Chamber runs on."""

import json
import re
import subprocess
import sys
from pathlib import Path

from chamber import __version__

ROOT = Path(__file__).resolve().parent.parent


def test_it_has_every_package_of_the_lock_file_with_its_hashes() -> None:
    done = subprocess.run([sys.executable, ".ci/sbom.py"], cwd=ROOT, capture_output=True, check=True)
    bill = json.loads(done.stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == __version__
    lock = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w.-]+)(?:\[.*?\])?==(\S+)", lock, re.MULTILINE)
    named = {(each["name"], each["version"]) for each in bill["components"]}
    assert named == {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in pinned}
    assert len(named) > 40
    hashes = [made["content"] for each in bill["components"] for made in each["hashes"]]
    assert sorted(hashes) == sorted(re.findall(r"sha256:(\w+)", lock))
    assert all(each["hashes"] for each in bill["components"])
