"""Settings made from URLs: what cannot be read is said without the password that may stand in it."""

from pathlib import Path

import pytest

from chamber import stores

pytestmark = pytest.mark.stores

UNREADABLE = ("se/cret", "se#cret", "se?cret", "se]cret[", "[secret")


@pytest.mark.parametrize("password", UNREADABLE)
def test_a_url_of_redis_with_an_unquoted_password_is_refused_without_showing_it(password: str) -> None:
    with pytest.raises(SystemExit) as refusal:
        stores.redis_url(f"redis://:{password}@host:6379/0")

    assert "CHAMBER_REDIS cannot be read as a URL" in str(refusal.value)
    assert "cret" not in str(refusal.value)
    assert refusal.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@host:6379/0?nonsense=1",
        "redis://:secret@host:6379/0?ssl_ca_certs=/etc/ca.pem",
        "redis://:secret@host:6379/0?protocol=9",
        "redis://:secret@host:6379/0?maint_notifications_config=1",
        "redis://:secret@host:6379/0?retry_on_error=1",
        "redis://:secret@host:6379/0?socket_type=1",
        "rediss://:secret@host:6379/0?ssl_cert_reqs=perhaps",
    ],
)
def test_a_url_of_redis_with_a_parameter_that_means_nothing_is_refused(url: str) -> None:
    with pytest.raises(SystemExit) as refusal:
        stores.redis_url(url)

    assert "CHAMBER_REDIS has parameters that a Redis at such a URL does not take" in str(refusal.value)
    assert "secret" not in str(refusal.value)
    assert refusal.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "redis://host",
        "redis://host/0?client_name=chamber&protocol=3",
        "rediss://u:p@host:6379/0?ssl_ca_certs=/etc/ca.pem&socket_timeout=5",
    ],
)
def test_a_url_of_redis_that_can_be_is_taken_as_it_is(url: str) -> None:
    assert stores.redis_url(url) == url


@pytest.mark.parametrize(
    "url", ["redis://host:6379/foo", "redis://host/0/1", "rediss://:s@host/cret@host:6379/0"]
)
def test_a_url_of_redis_whose_database_is_no_number_is_refused(url: str) -> None:
    with pytest.raises(
        SystemExit, match="CHAMBER_REDIS names a database after the slash that is no number"
    ) as stop:
        stores.redis_url(url)
    assert "cret" not in str(stop.value)


@pytest.mark.parametrize("password", UNREADABLE)
def test_a_url_of_the_database_with_an_unquoted_password_is_refused_without_showing_it(
    password: str, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as refusal:
        stores.database(f"postgresql://chamber:{password}@host:5432/chamber", tmp_path, pool=2)

    assert "CHAMBER_DATABASE cannot be read as a URL" in str(refusal.value)
    assert "cret" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_celery_checks_the_certificate_of_a_redis_over_tls_as_the_url_says() -> None:
    assert stores.broker_tls("redis://host:6379/0") is None
    assert stores.broker_tls("") is None
    assert stores.broker_tls("rediss://host:6379/0") == {"ssl_cert_reqs": "required"}
    given = stores.broker_tls("rediss://host:6379/0?ssl_ca_certs=/etc/ca.pem&ssl_check_hostname=false")
    assert given == {
        "ssl_cert_reqs": "required",
        "ssl_ca_certs": "/etc/ca.pem",
        "ssl_check_hostname": False,
    }


SENTINELS = "redis+sentinel://:s%2Fcret@one:1,two/chamber/3"


def test_an_address_of_sentinels_is_read_by_cache_channels_and_celery_alike() -> None:
    assert stores.redis_url(SENTINELS) == SENTINELS
    cache = stores.caches(SENTINELS)["default"]
    assert cache["LOCATION"] == [SENTINELS]
    pool = cache["OPTIONS"]["pool_class"].from_url(SENTINELS, socket_timeout=1)
    assert pool.service_name == "chamber"
    assert {name: pool.connection_kwargs[name] for name in ("db", "password")} == {
        "db": 3,
        "password": "s/cret",
    }
    [host] = stores.channel_layers(SENTINELS)["default"]["CONFIG"]["hosts"]
    assert host["sentinels"] == [("one", 1), ("two", 26379)]
    assert (host["master_name"], host["password"], host["db"]) == ("chamber", "s/cret", 3)
    url, options = stores.broker(SENTINELS)
    assert url == "sentinel://:s%2Fcret@one:1/3;sentinel://:s%2Fcret@two:26379/3"
    assert options["master_name"] == "chamber"


def test_a_single_redis_is_named_to_celery_as_it_is() -> None:
    assert stores.broker("redis://host:6379/0") == ("redis://host:6379/0", stores.BROKER_OPTIONS)
    assert stores.broker("")[0] == "memory://"


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://",
        "redis+sentinel://host",
        "redis+sentinel://host/",
        "redis+sentinel://host:26379/0",
        "redis+sentinel://host,,other/chamber/0",
        "redis+sentinel://:secret@/chamber",
        "redis+sentinel://host:port/chamber",
        "redis+sentinel://:secret@host/chamber/first",
        "redis+sentinel://host/chamber?nonsense=1",
        "redis+sentinel://:se]cret[@host/chamber",
    ],
)
def test_an_address_of_sentinels_that_cannot_be_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(SystemExit) as refusal:
        stores.redis_url(url)

    assert "CHAMBER_REDIS names sentinels in a way that cannot be read" in str(refusal.value)
    assert "cret@" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "given"),
    [
        ("redis://host:6379/0", "redis://:a%2Fb%40c@host:6379/0"),
        (
            "rediss://me:old@host:6379/0?ssl_cert_reqs=none",
            "rediss://me:a%2Fb%40c@host:6379/0?ssl_cert_reqs=none",
        ),
        ("redis+sentinel://one,two:7/master/2", "redis+sentinel://:a%2Fb%40c@one,two:7/master/2"),
        ("", ""),
    ],
)
def test_a_password_of_its_own_goes_before_that_of_the_url_of_redis(url: str, given: str) -> None:
    assert stores.redis_url(url, "a/b@c") == given
    assert stores.redis_url(url) == url
