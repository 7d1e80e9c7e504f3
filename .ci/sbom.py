"""Write a bill of materials (CycloneDX 1.6, JSON) of what Chamber runs on: the lock file's packages with hashes."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)


def components(lock: str) -> list[dict[str, object]]:
    """Return the packages of a lock file by name; the hashes are those of the files that it takes of each."""
    found: list[dict[str, object]] = []
    for entry in re.split(r"\n(?=\S)", lock):
        if pinned := PINNED.match(entry):
            name, version = re.sub(r"[-_.]+", "-", pinned[1]).lower(), pinned[2]
            purl = f"pkg:pypi/{name}@{version}"
            hashes = [{"alg": "SHA-256", "content": each} for each in HASH.findall(entry)]
            found.append(
                {
                    "type": "library",
                    "bom-ref": purl,
                    "name": name,
                    "version": version,
                    "purl": purl,
                    "hashes": hashes,
                }
            )
    return found


def bill() -> dict[str, object]:
    """Return the bill of this version."""
    told = VERSION.search((ROOT / "chamber/__init__.py").read_text(encoding="utf-8"))
    version = told[1] if told else ""
    about = {"type": "application", "bom-ref": "chamber", "name": "chamber", "version": version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": about},
        "components": components((ROOT / "requirements.txt").read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=2)
    sys.stdout.write("\n")
