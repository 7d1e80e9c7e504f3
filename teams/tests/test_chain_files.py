"""An exported trail is checked elsewhere: by its lines alone, with or without the key."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from teams import retention
from teams.actors import Actor, Via
from teams.audit import record
from teams.chain import export, sealing
from teams.chain.accepting import accept, first_fault
from teams.chain.checking import present
from teams.chain.events import keyring
from teams.chain.files import FileProof, NoTrail, verify
from teams.chain.rows import ChainHead, Keyring, canonical, digest
from teams.models import AuditEvent, AuditSeal
from teams.tests.chains import acts, unguarded
from teams.tests.conftest import Acme, Api
from teams.tests.test_retention import DAY, audited

pytestmark = pytest.mark.django_db
URL = "/api/v1/audit/export/?format=jsonl"
Lines = list[dict[str, Any]]


@pytest.fixture
def exported(acme: Acme, api: Api) -> Lines:
    """The lines of five rows, which an organisation admin exported."""
    acts(acme.nlp, 5)
    return lines_of(acme, api)


def lines_of(acme: Acme, api: Api, query: str = "") -> Lines:
    answer = api(acme.org_admin).get(URL + query)
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.headers["Content-Disposition"].endswith('.jsonl"')
    return [json.loads(line) for line in answer.getvalue().decode().splitlines()]


def found(lines: Lines, **more: Any) -> FileProof:
    return verify([json.dumps(line) + "\n" for line in lines], **more)


def test_all_of_it_holds_and_its_head_is_that_of_the_server(exported: Lines) -> None:
    result = found(exported, keyring=keyring())
    assert (result.fault, result.rows, result.first, result.stretches, result.signed) == ("", 5, 1, 1, 5)
    assert result.last == sealing.head_of(present())
    assert not found(exported, known=ChainHead(3, exported[3]["digest"])).fault


def test_the_present_and_former_keys_prove_signatures_and_others_are_told(exported: Lines) -> None:
    other = found(exported, keyring=Keyring.of(["another"]))
    assert (other.fault, other.signed, len(other.unknown_keys)) == ("", 0, 1)


def changed(lines: Lines) -> None:
    lines[2]["event"]["actor"] = "nobody"


def added_key(lines: Lines) -> None:
    lines[2]["event"]["more"] = 1


def missing(lines: Lines) -> None:
    del lines[2]
    lines[-1]["rows"] = 4


def missing_and_told(lines: Lines) -> None:
    del lines[2]
    lines[0]["filters"] = {"team": "nlp"}


def missing_at_the_end(lines: Lines) -> None:
    del lines[5]
    lines[-1]["rows"] = 4


def swapped(lines: Lines) -> None:
    lines[2], lines[3] = lines[3], lines[2]
    lines[0]["filters"] = {"team": "nlp"}


def inserted(lines: Lines) -> None:
    lines.insert(3, {**lines[2], "number": 3})


FAULTS: list[tuple[Callable[[Lines], None], str]] = [
    (changed, "was changed: it does not fit its digest."),
    (added_key, "was changed: it does not fit its digest."),
    (missing, "Rows 2 to 2 are missing before line 3."),
    (missing_and_told, "The file tells of 5 rows and has 4: some are missing, or were inserted."),
    (missing_at_the_end, "The rows from 5 to 5 are missing at the end."),
    (swapped, "is out of order: it comes after row 3."),
    (inserted, "does not follow the row before it: one was inserted, changed, or is missing."),
]


@pytest.mark.parametrize(("act", "sentence"), FAULTS, ids=[act.__name__ for act, _ in FAULTS])
def test_what_does_not_fit_is_named(exported: Lines, act: Callable[[Lines], None], sentence: str) -> None:
    act(exported)
    assert found(exported).fault.endswith(sentence)


def test_a_chain_that_was_written_anew_is_told_by_the_key_or_a_known_head(exported: Lines) -> None:
    known, previous = ChainHead(5, exported[5]["digest"]), exported[2]["previous"]
    changed(exported)
    for line in exported[2:6]:
        line["previous"], line["digest"] = (
            previous,
            digest(previous, line["number"], canonical(line["event"])),
        )
        previous = line["digest"]
    exported[0]["head"]["digest"] = previous
    assert not found(exported).fault
    assert found(exported, keyring=keyring()).fault.endswith("Chamber did not sign it.")
    assert found(exported, known=known).fault == (
        "Row 5 has another digest than the one that was known: the chain was written anew."
    )
    assert found(exported, known=ChainHead(6, "0" * 64)).fault == (
        "Row 6 is missing: the chain ended at row 5 when it was exported."
    )


def test_a_selection_holds_row_by_row(acme: Acme, api: Api, exported: Lines) -> None:
    record(by=Actor.system("test"), action="team.renamed", target=acme.root)
    acts(acme.nlp, 1)
    chosen = lines_of(acme, api, "&action=team.edited")
    result = found(chosen, keyring=keyring())
    assert (result.fault, result.rows, result.stretches, result.is_selection) == ("", 6, 2, True)
    # Of another's team nothing is in it.
    own = [json.loads(line) for line in api(acme.admin).get(URL).getvalue().decode().splitlines()]
    assert own[0]["filters"] == {"readable": "research"}
    assert not found(own).fault
    assert "Acme" not in json.dumps(own)


def test_what_was_deleted_because_of_its_age_is_not_missed(acme: Acme, api: Api) -> None:
    audited(acme, 500)
    acts(acme.nlp, 2)
    retention.forget_audit(retention.move_horizon(timezone.now() - DAY))
    assert not AuditSeal.objects.filter(number=1).exists()
    result = found(lines_of(acme, api))
    assert (result.fault, result.rows, result.first) == ("", 2, 2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "It is no exported audit trail: the first line of `chamber audit export` tells its form."),
        ("at,actor\n", "Line 1 is not JSON: Expecting value: line 1 column 1 (char 0)."),
        ("[]\n", "Line 1 is no JSON object."),
        ('{"form": "x"}\n', "The file has the form 'x'; this version knows 'chamber-audit-1'."),
        (
            '{"form": "chamber-audit-1", "head": 3}\n',
            "Line 1 does not tell where the chain begins and ends (anchor, head).",
        ),
    ],
)
def test_a_file_that_is_none_is_told(text: str, sentence: str) -> None:
    with pytest.raises(NoTrail) as error:
        verify(text.splitlines(keepends=True))
    assert str(error.value) == sentence


def test_a_file_that_was_cut_off_is_told(exported: Lines) -> None:
    with pytest.raises(NoTrail, match="ends before its last line"):
        found(exported[:-1])
    with pytest.raises(NoTrail, match="Line 8 comes after the file's end"):
        found([*exported, exported[1]])
    del exported[1]["mac"]
    with pytest.raises(NoTrail, match="Line 2 is no row of an exported audit trail"):
        found(exported)


def test_more_rows_than_are_read_at_once(acme: Acme, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "AT_ONCE", 2)
    acts(acme.nlp, 5)
    assert found(lines_of(acme, api)).rows == 5


def test_an_export_tells_of_the_breaks_that_were_accepted_by_then(acme: Acme, api: Api) -> None:
    acts(acme.nlp, 5)
    with unguarded():
        AuditEvent.objects.filter(pk=AuditSeal.objects.get(number=3).event_id).update(actor="nobody")
    fault = first_fault()
    assert fault is not None
    by = Actor(name="console", via=Via.SYSTEM, on_behalf_of="olga")
    accept(by=by, name=fault.name, reason="changed by hand, ticket 12")
    proof = found(lines_of(acme, api))
    assert [sentence.partition(" Accepted by olga on ")[0] for sentence in proof.known_breaks] == [fault.text]
    assert proof.known_breaks[0].endswith("because: changed by hand, ticket 12")
    assert "Row 3" in proof.fault, "the file is judged by what is in it"


@pytest.mark.parametrize("told", ["x", [1], {}])
def test_breaks_that_are_no_sentences_are_refused(exported: Lines, told: object) -> None:
    exported[0]["known_breaks"] = told
    with pytest.raises(NoTrail, match="known breaks as a list of sentences"):
        found(exported)
    del exported[0]["known_breaks"]
    assert not found(exported).fault, "a file of before tells of none"
