"""What the table keeps: of one's own pods, bounded, once, and as long as the attempt."""

import uuid
import zlib
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentlink import assignments
from agentlink.logs import kept
from agentlink.logs.kept import Whole
from agentlink.models import Cluster, PodLog
from agentlink.protocol.logs import KEPT_BYTES
from agentlink.tasks import forget_logs
from agentlink.tests.agents import admit, cancel, devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster
from chamber.ids import first_of
from workloads.models import Attempt

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt(place: Place) -> Attempt:
    return admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:2])


def test_what_is_kept_is_small_and_read_as_it_was(place: Place, attempt: Attempt) -> None:
    text = "step 1 loss 0.5\n" * 60_000
    kept.keep(place.cluster.pk, [Whole(attempt.pk, 1, text, cut=True)])
    row = kept.find(attempt.pk, 1)
    assert row is not None
    assert (row.text, row.size_bytes, row.cut) == (text, 960_000, True)
    assert len(row.content) < 10_000
    assert kept.find(attempt.pk, 0) is None


def test_a_pod_is_kept_once_and_what_was_read_later_counts(place: Place, attempt: Attempt) -> None:
    for text in ("one\n", "one\ntwo\n"):
        kept.keep(place.cluster.pk, [Whole(attempt.pk, 0, text, cut=False)] * 2)
    assert [row.text for row in PodLog.objects.all()] == ["one\ntwo\n"]


def test_pods_of_others_and_pods_that_there_are_not_are_counted_and_left_out(
    place: Place, attempt: Attempt
) -> None:
    west = make_cluster("west")
    assert kept.keep(west.pk, [Whole(attempt.pk, 0, "forged\n", cut=False)]) == (0, 1)
    assert kept.keep(place.cluster.pk, [Whole(attempt.pk, 2, "x\n", cut=False)]) == (0, 1)
    assert not PodLog.objects.exists()
    assert dict(Cluster.objects.values_list("name", "rejected_messages")) == {"east": 1, "west": 1}


def test_pods_of_attempts_that_are_not_known_are_left_out_and_are_no_fault_of_the_agent(
    place: Place, attempt: Attempt
) -> None:
    """As after a restore from a backup that is older than they are."""
    later = uuid.uuid4()
    pods = [
        Whole(attempt.pk, 0, "x\n", cut=False),
        *(Whole(later, pod, "x\n", cut=False) for pod in (0, 1)),
    ]
    assert kept.keep(place.cluster.pk, pods) == (2, 0)
    assert PodLog.objects.count() == 1
    assert Cluster.objects.get().rejected_messages == 0


def test_many_pods_are_stored_by_few_queries(place: Place, attempt: Attempt) -> None:
    pods = [Whole(attempt.pk, pod, "x\n", cut=False) for pod in (0, 1)]
    with CaptureQueriesContext(connection) as queries:
        kept.keep(place.cluster.pk, pods)
    assert len([each for each in queries if not each["sql"].startswith(("SAVEPOINT", "RELEASE"))]) == 2


def test_the_database_refuses_what_is_larger_than_kept_logs_are(attempt: Attempt) -> None:
    row = {"attempt": attempt, "pod_index": 0, "content": b""}
    with pytest.raises(IntegrityError, match="podlog_size_bounded"), transaction.atomic():
        PodLog.objects.create(**row, size_bytes=KEPT_BYTES + 1)
    PodLog.objects.create(**row, size_bytes=0)
    with pytest.raises(IntegrityError), transaction.atomic():
        PodLog.objects.create(**row, size_bytes=0)


def test_content_that_unpacks_to_more_or_to_nothing_is_harmless(attempt: Attempt) -> None:
    bomb = zlib.compress(b"x" * (50 * KEPT_BYTES))
    assert len(PodLog(attempt=attempt, content=bomb).text) == KEPT_BYTES
    assert PodLog(attempt=attempt, content=b"nonsense").text == ""


def test_logs_go_with_their_attempt(place: Place, attempt: Attempt) -> None:
    kept.keep(place.cluster.pk, [Whole(attempt.pk, 0, "x\n", cut=False)])
    cancel(attempt)
    with transaction.atomic():
        assignments.release([attempt.pk], at=timezone.now(), by=assignments.LINK)
    # As its workload does: `workloads.retention` deletes that with all its attempts.
    Attempt.objects.filter(pk=attempt.pk).delete()
    assert not PodLog.objects.exists()


def test_logs_may_go_before_their_workload(
    place: Place, attempt: Attempt, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    for pod, days in enumerate((20, 15, 13, 0)):
        PodLog.objects.create(
            pk=first_of(now - timedelta(days=days)),
            attempt=attempt,
            pod_index=pod,
            content=b"",
            size_bytes=0,
        )
    settings.CHAMBER_KEEP_LOG_DAYS = 14
    monkeypatch.setattr(kept, "BATCH", 1)
    assert forget_logs() == 2
    assert list(PodLog.objects.values_list("pod_index", flat=True)) == [2, 3]
    assert Attempt.objects.filter(pk=attempt.pk).exists()
    assert forget_logs() == 0
