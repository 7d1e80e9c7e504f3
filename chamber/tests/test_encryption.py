"""Stored secrets: encrypted by the newest key, read by all that are known."""

import pytest
from pytest_django.fixtures import Settings

from chamber import encryption

OLD = "an-old-key-of-which-nobody-knows-0123456789"
NEW = "a-new-key-that-an-operator-made-9876543210"


@pytest.fixture(autouse=True)
def _keys(settings: Settings) -> None:
    settings.ENCRYPTION_KEYS, settings.SECRET_KEY_FALLBACKS = [OLD], []


def test_a_text_is_read_again_and_looks_like_nothing() -> None:
    made = encryption.encrypt("secret ü")
    assert "secret" not in made
    assert made != encryption.encrypt("secret ü")
    assert encryption.decrypt(made) == "secret ü"


def test_keys_are_changed_one_after_the_other(settings: Settings) -> None:
    before = encryption.encrypt("secret")
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    assert encryption.decrypt(before) == "secret"
    assert not encryption.is_current(before)
    after = encryption.encrypt(encryption.decrypt(before))
    settings.ENCRYPTION_KEYS = [NEW]
    assert encryption.decrypt(after) == "secret"
    with pytest.raises(encryption.UnreadableSecret):
        encryption.decrypt(before)


def test_without_keys_of_its_own_the_secret_key_encrypts_and_goes_on_reading(settings: Settings) -> None:
    settings.ENCRYPTION_KEYS = []
    before = encryption.encrypt("secret")
    settings.ENCRYPTION_KEYS = [NEW]
    assert encryption.decrypt(before) == "secret"
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = OLD, [settings.SECRET_KEY]
    assert encryption.decrypt(before) == "secret"


@pytest.mark.parametrize("text", ["", "gAAAAA", "ü", "x" * 500])
def test_what_was_never_encrypted_is_unreadable(text: str) -> None:
    with pytest.raises(encryption.UnreadableSecret):
        encryption.decrypt(text)
    assert not encryption.is_current(text)


def test_keys_are_listed_with_the_newest_first() -> None:
    assert encryption.keys_of(f"{NEW}\n{OLD}\n") == [NEW, OLD]
    assert encryption.keys_of("") == []


@pytest.mark.parametrize("weak", ["short", "a" * 40])
def test_a_weak_key_is_refused_without_being_told(weak: str) -> None:
    with pytest.raises(SystemExit) as stop:
        encryption.keys_of(f"{NEW} {weak}")
    assert str(stop.value).startswith("Key 2 of CHAMBER_ENCRYPTION_KEYS has")
    assert weak not in str(stop.value)
