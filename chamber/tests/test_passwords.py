"""Which passwords are taken, and how they are kept."""

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from pytest_django.fixtures import Settings

from chamber.models import User
from chamber.passwords import LEAST_SCORE
from chamber.settings import PASSWORD_HASHERS
from chamber.strength import strength_of
from teams.models import Role
from teams.tests.factories import make_org, make_team, member

LONG = "rotor glade " + "".join(map(str, range(900)))
ADA = User(username="ada", first_name="Ada", last_name="Lovelace", email="ada@analytical.example")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("password", "says"),
    [
        ("Kd8#qPz!2w", "at least 12 characters"),
        ("ada@analytical.example", "too similar"),
        ("Ada-Lovelace", "too similar to the name."),
        ("ada-lovelace-ada-1", "Without the names of yourself"),
        ("Analytical example 7", "1 character of the password is left; at least 8"),
        ("password1234", "guessed too easily: its strength is"),
        ("aaaaaaaaaaaaaaaa", "guessed too easily"),
        ("lovelacelovelace", "0 characters of the password are left"),
        ("qwertyuiop[]", "guessed too easily"),
        (LONG[:129], "This password has 129 characters; at most 128 are allowed."),
    ],
)
def test_what_is_guessed_easily_is_refused(password: str, says: str) -> None:
    with pytest.raises(ValidationError) as refused:
        validate_password(password, ADA)
    assert says in " ".join(refused.value.messages)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "password",
    ["rotor glade mosaic 41", "f7G!w0q-Zp4m", LONG[:64], LONG[:128]],
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


@pytest.mark.django_db
def test_what_is_made_of_the_names_of_the_organisation_and_ones_teams_is_refused() -> None:
    acme = make_org("Acme")
    lena = member(make_team(acme, "Speech research"), Role.RESEARCHER, "lena")
    for password in ("lena-acme-lena-2", "Speech@Acme.2026", "acme research 12"):
        with pytest.raises(
            ValidationError, match="Without the names of yourself, your teams and this server"
        ):
            validate_password(password, lena)
    validate_password("lena rotor glade mosaic", lena)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "password",
    [
        *("a", "Kd8#qPz!2w", "ada@analytical.example", "ada-lovelace-ada-1", "password1234", "qwertyuiop[]"),
        *("aaaaaaaaaaaaaaaa", LONG[:129], LONG[:64], "rotor glade mosaic 41", "f7G!w0q-Zp4m", "123456789012"),
        *("rotor glade", "acme acme acme 2026"),
    ],
)
def test_the_meter_says_strong_of_what_is_taken_alone(password: str) -> None:
    make_org("Acme")
    try:
        validate_password(password, ADA)
        refusals: list[str] = []
    except ValidationError as error:
        refusals = error.messages
    told = strength_of(password, ADA)
    assert (told.score >= LEAST_SCORE) == (not refusals)
    assert list(told.problems) == refusals
