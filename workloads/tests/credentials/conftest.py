"""A key for credentials, and the same tree as elsewhere."""

from typing import Any

import pytest
from pytest_django.fixtures import Settings

KEY = "a-key-for-credentials-of-tests-0123456789"
MARKER = "m4rker-value-that-nobody-else-writes"
CONTENTS: dict[str, dict[str, Any]] = {
    "token": {"variable": "HF_TOKEN", "token": MARKER},
    "s3": {"endpoint_url": "https://s3.example.org", "access_key_id": "AK1", "secret_access_key": MARKER},
    "registry": {"server": "registry.example.org", "username": "robot", "password": MARKER},
    "git": {"server": "git.example.org", "username": "robot", "password": MARKER},
    "variables": {"variables": {"DB_PASSWORD": MARKER, "DB_USER": "ada"}},
    "files": {"files": {"key.json": MARKER}},
    "secret": {"secret": "wandb", "use": "variables", "variables": {"WANDB_API_KEY": "key"}},
}
"""One of each kind."""


@pytest.fixture(autouse=True)
def _key(settings: Settings) -> None:
    settings.CREDENTIALS_KEYS = [KEY]
