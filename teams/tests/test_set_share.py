"""set_share: what a team is guaranteed of a pool, by whom, and what the numbers allow."""

import pytest

from chamber.errors import NotAllowed, NotVisible, Refusal, StaleVersion
from teams.actions import set_share
from teams.actors import Actor
from teams.models import AuditEvent, Share
from teams.tests.conftest import Acme
from teams.tests.factories import actor
from teams.tests.factories import set_share as given
from teams.values import ShareChanges


def test_changes_the_share_and_tells_the_trail_what_changed(acme: Acme) -> None:
    share = set_share(
        by=actor(acme.admin), team=acme.nlp, pool=acme.pool, version=1, changes={"reservation_milli": 25_000}
    )
    assert (share.reservation_milli, share.version) == (25_000, 2)
    event = AuditEvent.objects.get()
    assert (event.action, event.actor, event.via) == ("team.share-changed", "adam", "page")
    assert event.before == {"main": {"reservation_milli": 20_000}}
    assert event.after == {"main": {"reservation_milli": 25_000}}


def test_makes_the_row_where_there_was_none(acme: Acme) -> None:
    share = set_share(
        by=actor(acme.org_admin), team=acme.root, pool=acme.pool, version=0, changes={"maximum_milli": 90_000}
    )
    assert (share.reservation_milli, share.maximum_milli, share.version) == (0, 90_000, 1)


def test_the_same_values_change_nothing(acme: Acme) -> None:
    changes: ShareChanges = {"reservation_milli": 20_000}
    share = set_share(by=actor(acme.admin), team=acme.nlp, pool=acme.pool, version=1, changes=changes)
    assert share.version == 1
    assert not AuditEvent.objects.exists()


def test_refuses_children_above_the_parents_reservation_with_both_numbers(acme: Acme) -> None:
    with pytest.raises(Refusal) as refusal:
        set_share(
            by=actor(acme.org_admin),
            team=acme.nlp,
            pool=acme.pool,
            version=1,
            changes={"reservation_milli": 40_000},
        )
    assert "Research has a reservation of 48 GPUs in Main" in refusal.value.message
    assert "50 GPUs: 2 GPUs too many" in refusal.value.message
    assert list(refusal.value.fields) == ["reservation"]
    assert Share.objects.get(team=acme.nlp).reservation_milli == 20_000


def test_refuses_to_take_the_parents_reservation_below_its_children(acme: Acme) -> None:
    with pytest.raises(Refusal, match="would be guaranteed 30 GPUs: 1 GPU too many"):
        set_share(
            by=actor(acme.org_admin),
            team=acme.research,
            pool=acme.pool,
            version=1,
            changes={"reservation_milli": 29_000},
        )


def test_what_was_exceeded_before_may_shrink(acme: Acme) -> None:
    given(acme.nlp, acme.pool, gpus=60)
    share = set_share(
        by=actor(acme.org_admin),
        team=acme.nlp,
        pool=acme.pool,
        version=1,
        changes={"reservation_milli": 50_000},
    )
    assert share.reservation_milli == 50_000


def test_refuses_a_reservation_above_the_maximum(acme: Acme) -> None:
    with pytest.raises(Refusal, match="reservation of 20 GPUs in Main is above its maximum of 8 GPUs"):
        set_share(
            by=actor(acme.admin), team=acme.nlp, pool=acme.pool, version=1, changes={"maximum_milli": 8_000}
        )


@pytest.mark.parametrize(("milli", "told"), [(-1000, "not -1 GPU"), (10**12, "not 1,000,000,000 GPUs")])
def test_refuses_numbers_that_cannot_be(acme: Acme, milli: int, told: str) -> None:
    with pytest.raises(Refusal, match=told):
        set_share(
            by=actor(acme.admin),
            team=acme.nlp,
            pool=acme.pool,
            version=1,
            changes={"reservation_milli": milli},
        )


def test_an_older_version_is_refused(acme: Acme) -> None:
    with pytest.raises(StaleVersion, match="version 7, and it is at 1"):
        set_share(
            by=actor(acme.admin),
            team=acme.nlp,
            pool=acme.pool,
            version=7,
            changes={"reservation_milli": 1000},
        )


def test_a_lead_divides_what_the_team_was_given(acme: Acme) -> None:
    given(acme.research, acme.pool, gpus=30)
    set_share(
        by=actor(acme.lead), team=acme.nlp, pool=acme.pool, version=1, changes={"reservation_milli": 5000}
    )
    share = set_share(
        by=actor(acme.lead),
        team=acme.vision,
        pool=acme.pool,
        version=1,
        changes={"reservation_milli": 25_000},
    )
    assert share.reservation_milli == 25_000


def test_nobody_below_the_root_raises_what_their_own_team_is_guaranteed(acme: Acme) -> None:
    given(acme.research, acme.pool, gpus=0)
    for user in (acme.lead, acme.admin):
        with pytest.raises(
            Refusal, match="Research is guaranteed 30 GPUs of Main, and this would make it 31"
        ):
            set_share(
                by=actor(user),
                team=acme.nlp,
                pool=acme.pool,
                version=1,
                changes={"reservation_milli": 21_000},
            )


def test_the_own_reservation_of_an_admins_team_comes_from_above(acme: Acme) -> None:
    changes: ShareChanges = {"reservation_milli": 60_000}
    with pytest.raises(NotAllowed, match="changed by an admin above Research"):
        set_share(by=actor(acme.admin), team=acme.research, pool=acme.pool, version=1, changes=changes)
    set_share(by=actor(acme.org_admin), team=acme.research, pool=acme.pool, version=1, changes=changes)


def test_a_lead_may_not_set_a_maximum(acme: Acme) -> None:
    with pytest.raises(NotAllowed):
        set_share(
            by=actor(acme.lead), team=acme.nlp, pool=acme.pool, version=1, changes={"maximum_milli": 30_000}
        )


@pytest.mark.parametrize("who", ["viewer", "researcher"])
def test_others_of_the_team_may_not(acme: Acme, who: str) -> None:
    with pytest.raises(NotAllowed):
        set_share(
            by=actor(getattr(acme, who)),
            team=acme.nlp,
            pool=acme.pool,
            version=1,
            changes={"reservation_milli": 1000},
        )


def test_for_an_outsider_there_is_no_such_team(acme: Acme) -> None:
    with pytest.raises(NotVisible):
        set_share(
            by=actor(acme.outsider),
            team=acme.nlp,
            pool=acme.pool,
            version=1,
            changes={"reservation_milli": 1000},
        )


def test_chamber_itself_may_do_everything(acme: Acme) -> None:
    share = set_share(
        by=Actor.system("demo"),
        team=acme.production,
        pool=acme.pool,
        version=1,
        changes={"reservation_milli": 0},
    )
    assert share.reservation_milli == 0
