"""The pages of job classes and tiers: shown to all, changed by organisation admins, their effect shown first."""

import pytest

from teams import actions
from teams.actors import Actor
from teams.models import ClassNarrowing, JobClass, PriorityTier
from teams.tests.conftest import Acme, SignIn

PAGE = "/settings/classes/"
TRAINING = f"{PAGE}training/"
HIGH = "/settings/tiers/high/"
FILLED = {
    "version": "1", "name": "Training", "tier": "normal", "time_limit_seconds": "12h", "max_retries": "3",
    "on_preemption": "requeue", "sharing": "elastic", "order": "0",
}  # fmt: skip
SYSTEM = Actor.system("test")


def test_all_see_them_and_only_organisation_admins_are_offered_changes(acme: Acme, sign_in: SignIn) -> None:
    page = sign_in(acme.viewer).get(PAGE).content.decode()
    assert "Batch inference" in page
    assert "75 to 99" in page
    assert "/settings/classes/new/" not in page
    assert "/settings/classes/new/" in sign_in(acme.org_admin).get(PAGE).content.decode()
    assert 'href="/settings/classes/"' in page
    JobClass.objects.all().delete()
    assert "No job class yet" in sign_in(acme.viewer).get(PAGE).content.decode()


def test_a_class_is_changed(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.org_admin)
    assert 'value="1d"' in browser.get(TRAINING).content.decode()
    answer = browser.post(TRAINING, FILLED)
    assert (answer.status_code, answer.headers["Location"]) == (302, PAGE)
    row = JobClass.objects.get(slug="training")
    assert (row.time_limit_seconds, row.max_retries, row.version) == (43200, 3, 2)
    stale = browser.post(TRAINING, FILLED | {"max_retries": "4"})
    assert (stale.status_code, "Somebody changed the job class" in stale.content.decode()) == (422, True)


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"max_retries": "101"}, "max_retries", "101; at most 100 is allowed"),
        ({"time_limit_seconds": "soon"}, "time_limit_seconds", "is not a duration"),
        ({"time_limit_seconds": "0s"}, "time_limit_seconds", "A time limit is from 1s to 3650d, not 0s."),
        ({"tier": "hgih"}, "tier", "hgih"),
        ({"name": ""}, "name", "Name"),
    ],
)
def test_a_mistake_stands_beside_its_field(
    acme: Acme, sign_in: SignIn, change: dict[str, str], field: str, words: str
) -> None:
    for query in ("", "?effect"):
        answer = sign_in(acme.org_admin).post(f"{TRAINING}{query}", FILLED | change)
        page = answer.content.decode()
        assert (answer.status_code, words in page, f'id="id_{field}_error"' in page) == (422, True, True), (
            page
        )
    panel = sign_in(acme.org_admin).post(
        f"{TRAINING}?effect", FILLED | change, headers={"HX-Request": "true"}
    )
    assert (panel.status_code, words in panel.content.decode()) == (422, True)
    assert JobClass.objects.get(slug="training").version == 1


def test_the_effect_is_shown_before_it_is_saved(acme: Acme, sign_in: SignIn) -> None:
    values = {"time_limit_seconds": "20h"}
    actions.narrow_class(by=SYSTEM, team=acme.nlp, slug="training", version=0, values=values)
    actions.narrow_class(
        by=SYSTEM, team=acme.production, slug="training", version=0, values={"max_retries": 0}
    )
    browser = sign_in(acme.org_admin)
    asked = FILLED | {"tier": "reserved"}
    panel = browser.post(f"{TRAINING}?effect", asked, headers={"HX-Request": "true"}).content.decode()
    for sentence in (
        "Time limit: 1d \u2192 12h.",
        "Priority tier: normal \u2192 reserved.",
        "No workload of the class is open",
        "They are reserved then",
        "NLP says a time limit of 20h itself; it has 12h then.",
        "Production keeps what it narrows of the class itself.",
    ):
        assert sentence in panel
    assert "<html" not in panel
    assert "<html" in browser.post(f"{TRAINING}?effect", asked).content.decode()
    assert JobClass.objects.get(slug="training").version == 1
    same = FILLED | {"time_limit_seconds": "24h", "max_retries": "1"}
    assert "Nothing would change." in browser.post(f"{TRAINING}?effect", same).content.decode()


def test_the_effect_of_a_tier_names_its_classes_and_who_may_use_it(acme: Acme, sign_in: SignIn) -> None:
    form = {
        "version": "1",
        "name": "Normal",
        "priority": "60",
        "least_role": "lead",
        "priority_classes": "gold\n",
    }
    browser = sign_in(acme.org_admin)
    page = browser.post("/settings/tiers/normal/?effect", form).content.decode()
    assert "Priority: 50 \u2192 60." in page
    assert "Submissions of Training, Experiment, Interactive that say no priority have 60" in page
    assert "Priorities 50 to 74 take the role Lead or more on the team" in page
    assert browser.post("/settings/tiers/normal/", form).status_code == 302
    tier = PriorityTier.objects.get(slug="normal")
    assert (tier.priority, tier.least_role, tier.priority_classes) == (60, "lead", ["gold"])


def test_new_ones_are_made_retired_restored_and_deleted(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.org_admin)
    tier = {"name": "Urgent", "slug": "urgent", "priority": "90", "least_role": "researcher"}
    assert browser.post("/settings/tiers/new/", tier).status_code == 302
    row = FILLED | {"name": "Sweep", "slug": "sweep", "tier": "urgent"}
    assert browser.post(f"{PAGE}new/", row).status_code == 302
    again = browser.post(f"{PAGE}new/", row)
    assert (
        again.status_code,
        "There is a job class &#x27;sweep&#x27; already" in again.content.decode(),
    ) == (422, True)
    for act, words in (
        ("retire", "Sweep is retired."),
        ("restore", "Sweep is taken again."),
        ("delete", "Sweep is deleted."),
    ):
        answer = browser.post(f"{PAGE}sweep/act/", {"act": act}, follow=True)
        assert words in answer.content.decode()
    kept = browser.post("/settings/tiers/normal/act/", {"act": "retire"}, follow=True).content.decode()
    assert "Normal is the tier of the job class Training" in kept
    assert browser.post(f"{PAGE}training/act/", {"act": "burn"}).status_code == 422
    assert not JobClass.objects.filter(slug="sweep").exists()


def test_a_lead_narrows_on_the_team_s_page(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.lead)
    page = browser.get("/teams/nlp/").content.decode()
    assert "Narrow job classes" in page
    posted = {"training-version": "0", "training-time_limit_seconds": "2h", "training-tier": "low"}
    assert browser.post("/teams/nlp/classes/training/", posted).status_code == 302
    own = ClassNarrowing.objects.select_related("tier").get()
    assert (own.time_limit_seconds, own.tier and own.tier.slug) == (7200, "low")
    assert "Narrowed here" in browser.get("/teams/nlp/").content.decode()
    wider = browser.post(
        "/teams/nlp/classes/training/", {**posted, "training-version": "1", "training-max_retries": "5"}
    )
    page = wider.content.decode()
    assert (
        wider.status_code,
        "5 retries are more than 1, which NLP has from above for Training." in page,
    ) == (422, True)
    cleared = {"training-version": "1", "training-time_limit_seconds": "", "training-tier": ""}
    assert browser.post("/teams/nlp/classes/training/", cleared).status_code == 302
    assert not ClassNarrowing.objects.exists()


@pytest.mark.parametrize("who", ["viewer", "researcher"])
def test_others_see_a_team_s_classes_and_no_form(acme: Acme, sign_in: SignIn, who: str) -> None:
    page = sign_in(getattr(acme, who)).get("/teams/nlp/").content.decode()
    assert "Batch inference" in page
    assert "Narrow job classes" not in page
    root = sign_in(acme.org_admin).get("/teams/acme/").content.decode()
    assert "Narrow job classes" not in root
