"""Filters and tags of every page."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django import forms
from django.template import Context, Template
from django.test import RequestFactory
from django.utils import timezone

from chamber.templatetags import chamber_ui as ui

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def render(source: str, address: str = "/", **context: object) -> str:
    request = RequestFactory().get(address)
    return Template(source).render(Context({"request": request, **context}))


@pytest.mark.parametrize(
    ("milli", "words"),
    [
        (0, "0 GPUs"),
        (250, "0.25 GPUs"),
        (334, "0.334 GPUs"),
        (1000, "1 GPU"),
        (1500, "1.5 GPUs"),
        (10_000, "10 GPUs"),
        (1_234_500, "1,234.5 GPUs"),
        (-1000, "-1 GPU"),
        (-500, "-0.5 GPUs"),
        (None, ""),
    ],
)
def test_gpus_are_exact_and_carry_their_unit(milli: int | None, words: str) -> None:
    assert ui.gpus(milli) == words
    if words:
        assert f"{ui.gpu_number(milli)} {ui.unit(milli, 'GPU')}" == words


@pytest.mark.parametrize(
    ("mib", "words"),
    [
        (512, "512 MiB"),
        (1024, "1 GiB"),
        (1536, "1.5 GiB"),
        (1025, "1,025 MiB"),
        (81_920, "80 GiB"),
        (1_048_576, "1 TiB"),
        (None, ""),
    ],
)
def test_memory_takes_the_largest_unit_that_keeps_it_exact(mib: int | None, words: str) -> None:
    assert ui.memory(mib) == words


@pytest.mark.parametrize(("mib", "words"), [(0, "0.0 GiB"), (70_123, "68.5 GiB"), (None, ""), ("", "")])
def test_measured_memory_is_told_to_a_tenth(mib: int | None, words: str) -> None:
    assert ui.gib(mib) == words


@pytest.mark.parametrize(("power", "words"), [(0, "0 W"), (512, "512 W"), (4120, "4.1 kW"), (None, "")])
def test_power_takes_the_unit_that_reads_best(power: int | None, words: str) -> None:
    assert ui.watts(power) == words


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (42.9, "42 s"),
        (245, "4 min 05 s"),
        (600, "10 min"),
        (7200, "2 h"),
        (3 * 86400 + 59, "3 d"),
        (timedelta(hours=2, minutes=5, seconds=59), "2 h 05 min"),
        (timedelta(days=3, hours=4), "3 d 4 h"),
        (-5, "0 s"),
        (None, ""),
    ],
)
def test_a_duration_has_its_two_largest_units(length: timedelta | float | None, words: str) -> None:
    assert ui.duration(length) == words


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (timedelta(seconds=-59), "just now"),
        (timedelta(seconds=30), "in a moment"),
        (timedelta(minutes=-4, seconds=-30), "4 min ago"),
        (timedelta(hours=2), "in 2 h"),
        (timedelta(days=-29, hours=-23), "29 d ago"),
        (timedelta(days=-30), "30 Jan 2026"),
    ],
)
def test_a_time_reads_relative_in_its_largest_unit(offset: timedelta, words: str) -> None:
    assert ui.relative(NOON + offset, NOON) == words


def test_a_time_element_carries_the_exact_time() -> None:
    html = render("{% when at %}", at=NOON)
    assert 'datetime="2026-03-01T12:00:00+00:00"' in html
    assert 'title="2026-03-01 12:00:00 UTC"' in html
    assert render("{% when at %}", at=None) == "–"
    assert render('{% when at "never" %}', at=None) == "never"


def test_a_duration_counts_on_only_while_it_has_no_end() -> None:
    since = timezone.now() - timedelta(minutes=3, seconds=1)
    assert re.search(r"data-elapsed>\d min \d\d s", render("{% elapsed since %}", since=since))
    assert render("{% elapsed since until %}", since=NOON, until=NOON + timedelta(hours=1)) == "1 h"


def test_a_status_shows_icon_and_word() -> None:
    html = render("{% status_badge 'running' %}")
    assert "status-running" in html
    assert "#i-running" in html
    assert "Running" in html


def test_only_a_pending_workload_reads_held() -> None:
    assert "Held" in render("{% status_badge 'pending' held=True %}")
    assert "Running" in render("{% status_badge 'running' held=True %}")


def test_every_icon_of_a_status_is_in_the_sprite() -> None:
    sprite = render('{% include "_components/icons.html" %}')
    for name in ui.STATUS_ICONS.values():
        assert f'id="i-{name}"' in sprite


def test_an_icon_is_decoration_unless_it_has_a_label() -> None:
    assert 'aria-hidden="true"' in render("{% icon 'plus' %}")
    html = render("{% icon 'plus' label %}", label='"add"')
    assert 'role="img" aria-label="&quot;add&quot;"' in html


def test_a_bar_tells_in_words_what_it_draws() -> None:
    html = render("{% gpu_bar 'NLP' capacity=8000 reserved=2000 burst=500 ceiling=9000 idle=False %}")
    assert 'aria-label="NLP: reserved 2 GPUs, burst 0.5 GPUs, ceiling 9 GPUs, of 8 GPUs"' in html
    assert 'x="25.000%" y="5" width="6.250%"' in html
    assert "marker-ceiling" not in html


def test_an_empty_bar_says_so_and_a_legend_names_the_idle_rest() -> None:
    assert "nothing in use, of 8 GPUs" in render("{% gpu_bar 'NLP' capacity=8000 idle=False %}")
    assert "Idle <b>8 GPUs</b>" in render("{% gpu_bar 'main' capacity=8000 legend=True %}")


def test_nothing_is_styled_inline() -> None:
    html = render(
        "{% gpu_bar 'main' capacity=8000 elastic=1000 guarantee=1000 entitlement=2000 legend=True %}"
        "{% lifecycle 'queued' at at %}{% bar_legend marks=True %}{% device_legend %}",
        at=NOON,
    )
    assert "style=" not in html
    assert "marker-entitlement" in html


def test_a_lifecycle_marks_the_current_step() -> None:
    html = render("{% lifecycle 'queued' at at %}", at=NOON)
    assert html.count('aria-current="step"') == 1
    assert "data-elapsed" in html


def test_what_a_template_lacks_shows_nothing() -> None:
    source = "[{{ limits.milli|gpus }}{{ limits.milli|gpu_number }}{{ x.y|duration }}{% when x.at '' %}]"
    assert render(source, limits=None) == "[]"
    assert "marker" not in render("{% gpu_bar 'NLP' capacity=8000 ceiling=limits.milli %}", limits=None)
    assert "never reached" not in render("{% lifecycle 'pending' at x.queued_at %}", at=NOON)


def test_devices_of_a_node_are_counted_by_state() -> None:
    devices = [{"state": "free"}, {"state": "reserved"}, {"state": "free"}]
    assert ui.device_summary(devices) == "2 free, 1 reserved"
    assert ui.device_summary([]) == "no GPUs"


@pytest.mark.parametrize(
    ("address", "sorted_by", "link"),
    [
        ("/?q=a&cursor=z", "", "?q=a&amp;sort=name"),
        ("/?sort=name", 'aria-sort="ascending"', "?sort=-name"),
        ("/?sort=-name", 'aria-sort="descending"', "?sort=name"),
        ("/?sort=gpus", "", "?sort=name"),
    ],
)
def test_a_heading_sorts_and_then_turns_the_order(address: str, sorted_by: str, link: str) -> None:
    html = render("{% sort_header 'name' 'Name' %}", address)
    assert f'href="{link}"' in html
    assert ("aria-sort" in html) == bool(sorted_by)
    assert sorted_by in html


def test_the_default_order_shows_where_the_address_names_none() -> None:
    assert "descending" in render("{% sort_header 'at' 'Submitted' default='-at' %}")
    assert "aria-sort" not in render("{% sort_header 'at' 'Submitted' default='-at' %}", "/?sort=name")


def test_pages_keep_the_filters() -> None:
    html = render("{% pagination following='n1' previous=None summary='50' %}", "/?q=a&cursor=old")
    assert 'href="?q=a&amp;cursor=n1"' in html
    assert "Previous" not in html
    assert render("{% pagination %}").strip() == ""


class SizeForm(forms.Form):
    """A form with every kind of field the component knows."""

    pods = forms.IntegerField(min_value=1, help_text="At least one.")
    note = forms.CharField(required=False)
    gang = forms.BooleanField(required=False)
    kind = forms.ChoiceField(choices=[("a", "A"), ("b", "B")], widget=forms.RadioSelect)


FIELD = '{% include "_components/field.html" with field=field %}'


def test_a_wrong_field_is_tied_to_its_error_and_help() -> None:
    html = render(FIELD, field=SizeForm({"pods": "0"})["pods"])
    assert 'aria-describedby="id_pods_helptext id_pods_error"' in html
    assert 'aria-invalid="true"' in html
    assert 'id="id_pods_error"' in html
    assert 'id="id_pods_helptext"' in html
    assert 'value="0"' in html


def test_a_checkbox_stands_before_its_label_and_choices_in_a_fieldset() -> None:
    form = SizeForm()
    html = render(FIELD, field=form["gang"])
    assert html.index("<input") < html.index("<label")
    assert "<legend>Kind" in render(FIELD, field=form["kind"])
    assert "optional" not in render(FIELD, field=form["note"])
    assert "optional" in render(FIELD, field=form["note"], optional=True)


def test_the_error_summary_links_to_each_wrong_field() -> None:
    form = SizeForm({"pods": "0", "kind": "a"})
    source = '{% include "_components/error_summary.html" with form=form %}'
    assert '<a href="#id_pods">Pods: ' in render(source, form=form)
    form.add_error(None, "The pool is paused.")
    assert "<li>The pool is paused.</li>" in render(source, form=form)
    assert render(source, form=SizeForm()).strip() == ""


@pytest.mark.parametrize(
    ("view_name", "current"),
    [
        ("chamber:overview", ["Overview"]),
        ("chamber:tokens", []),
        ("workloads:detail", ["Workloads"]),
        ("workloads:submit", []),
        ("teams:tree", ["Teams"]),
        ("teams:pool-edit", ["Pools"]),
        ("scheduling:what-if-pool", ["Pools"]),
        ("scheduling:what-if-team", ["Teams"]),
    ],
)
def test_the_page_of_the_navigation_that_one_is_in_is_current(view_name: str, current: list[str]) -> None:
    request = RequestFactory().get("/")
    request.resolver_match = type("Match", (), {"view_name": view_name})()
    found = ui.navigation(Context({"request": request}))
    assert [page.label for page in found if page.current] == current
    assert len({page.keys for page in found}) == len(found)


def test_no_template_carries_code_or_styles_inline() -> None:
    root = Path(__file__).resolve().parents[2] / "templates"
    for template in root.rglob("*.html"):
        text = template.read_text()
        for forbidden in (" style=", " onclick=", "hx-on", "<style", "<script>"):
            assert forbidden not in text, f"{template.name}: {forbidden}"


def test_a_device_is_drawn_with_what_it_is_and_nothing_of_it_is_markup() -> None:
    cells = [
        {"state": "free", "title": ""},
        {"state": "elastic", "title": 'GPU 1: <b>"a"</b>', "url": "/w/?a=1&b=2", "own": True},
    ]
    assert render("{% device_cells cells %}", cells=cells) == (
        '<span class="device device-free" title="free"></span>'
        '<a class="device device-elastic device-own" href="/w/?a=1&amp;b=2" '
        'title="GPU 1: &lt;b&gt;&quot;a&quot;&lt;/b&gt;" aria-label="GPU 1: &lt;b&gt;&quot;a&quot;&lt;/b&gt;"></a>'
    )
