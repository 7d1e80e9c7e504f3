"""Which secret keys are refused."""

import secrets

import pytest

from chamber.serving.secret import FOR_DEVELOPMENT, audit_weakness, weakness


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "No secret key is given"),
        (FOR_DEVELOPMENT, "one for development"),
        ("django-insecure-" + secrets.token_urlsafe(50), "one for development"),
        (secrets.token_urlsafe(50)[:31], "has 31 characters; the least is 32"),
        ("abcdefghi" * 6, "has 9 different characters; the least is 10"),
    ],
    ids=["none", "for development", "insecure", "short", "monotonous"],
)
def test_a_weak_key_is_refused_with_a_sentence_that_does_not_show_it(key: str, said: str) -> None:
    sentence = weakness(key)
    assert sentence is not None
    assert said in sentence
    assert "CHAMBER_SECRET_KEY" in sentence
    assert not key or key not in sentence


def test_a_random_one_is_taken() -> None:
    assert weakness(secrets.token_urlsafe(50)) is None


def test_an_audit_key_is_judged_alike_and_may_be_none() -> None:
    assert audit_weakness("") is None
    assert audit_weakness(secrets.token_urlsafe(50)) is None
    sentence = audit_weakness("short")
    assert sentence is not None
    assert sentence.startswith("The audit key has 5 characters; the least is 32. Give 50 random characters")
    assert "CHAMBER_AUDIT_KEY_FILE" in sentence
    assert sentence.endswith("Name the present one in CHAMBER_AUDIT_KEYS_BEFORE.")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("short", "has 5 characters; the least is 32."),
        ("abcdefghi" * 6, "has 9 different characters; the least is 10."),
        (FOR_DEVELOPMENT, "is one for development, which anybody can read."),
    ],
)
def test_a_key_of_before_is_judged_as_the_present_one(key: str, said: str) -> None:
    good = secrets.token_urlsafe(50)
    assert audit_weakness("", (good,)) is None
    sentence = audit_weakness(good, (good, key))
    assert sentence is not None
    assert sentence.startswith(f"The key 2 of CHAMBER_AUDIT_KEYS_BEFORE {said} Whoever guesses it")
    assert key not in sentence
