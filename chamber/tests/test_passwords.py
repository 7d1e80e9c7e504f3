"""Which passwords are taken, and how they are kept."""

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from pytest_django.fixtures import Settings

from chamber.models import User
from chamber.settings import PASSWORD_HASHERS

ADA = User(username="ada", first_name="Ada", last_name="Lovelace", email="ada@analytical.example")


@pytest.mark.parametrize(
    ("password", "says"),
    [
        ("Kd8#qPz!2w", "at least 12 characters"),
        ("ada@analytical.example", "too similar"),
        ("password1234", "guessed too easily: its strength is"),
        ("aaaaaaaaaaaaaaaa", "guessed too easily"),
        ("lovelacelovelace", "guessed too easily"),
        ("qwertyuiop[]", "guessed too easily"),
    ],
)
def test_what_is_guessed_easily_is_refused(password: str, says: str) -> None:
    with pytest.raises(ValidationError) as refused:
        validate_password(password, ADA)
    assert says in " ".join(refused.value.messages)


@pytest.mark.parametrize(
    "password",
    ["rotor glade mosaic 41", "f7G!w0q-Zp4m", "".join(map(str, range(900)))[-800:] + " rotor glade"],
)
def test_what_is_not_is_taken(password: str) -> None:
    validate_password(password, ADA)


@pytest.mark.django_db
def test_an_older_hash_still_signs_in_and_is_made_anew(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = PASSWORD_HASHERS
    user = User.objects.create(
        username="ada", password=PBKDF2PasswordHasher().encode("rotor glade", "salt", 1000)
    )
    assert not user.check_password("rotor blade")
    assert user.check_password("rotor glade")
    user.refresh_from_db()
    assert user.password.startswith("argon2$argon2id$v=19$m=47104,t=2,p=1$")
    assert user.check_password("rotor glade")
