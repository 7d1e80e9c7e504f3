"""Each field of a submission can be given by a flag of `chamber submit`, by the form, and is told in the docs."""

import re
from pathlib import Path

import click
import pytest

from chamber.cli.commands.submit import LONG_NAMES, submit
from workloads.forms import SubmitForm
from workloads.requests import SHORT_NAMES, SubmissionRequest

ROOT = Path(__file__).parents[1]
FIELDS = sorted(SubmissionRequest.model_fields)
IN_WORDS = {long: short for short, long in SHORT_NAMES.items()}
"""What flags and docs call those that have a short name."""


def flags() -> set[str]:
    """Return what the flags and the argument of the command say, in the words of the API."""
    return {str(param.name) for param in submit.params if isinstance(param, click.Option | click.Argument)}


@pytest.mark.parametrize("field", FIELDS)
def test_it_has_a_flag(field: str) -> None:
    assert IN_WORDS.get(field, field) in flags()


@pytest.mark.parametrize("field", FIELDS)
def test_it_is_on_the_form(field: str) -> None:
    assert field in SubmitForm.base_fields
    templates = (ROOT / "templates/workloads/_form_fields.html").read_text()
    details = {"min_pods", *_details()}
    assert f"form.{field}" in templates or field in details


def _details() -> set[str]:
    from workloads import forms

    return set(forms._DETAILS)


@pytest.mark.parametrize("field", FIELDS)
def test_it_is_told_in_the_docs(field: str) -> None:
    page = (ROOT / "docs/api.md").read_text()
    name = IN_WORDS.get(field, field)
    assert re.search(rf"`{name}`", page), name


def test_short_names_are_the_same_for_files_and_flags() -> None:
    assert LONG_NAMES == SHORT_NAMES
