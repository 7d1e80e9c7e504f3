"""Submissions as YAML: read with the line of each mistake, and written back from a workload."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from chamber.errors import Refusal, TooLarge
from teams.durations import duration_text
from workloads import quantities, times, variables
from workloads.chains import ShownNeed
from workloads.data.written import as_text
from workloads.defaults import CPU, MEMORY
from workloads.models import Workload
from workloads.requests import NO_LIMIT, SubmissionRequest, Unreadable, parse_all

if TYPE_CHECKING:
    from chamber.models import User

MOST_BYTES = 256 * 1024
MOST_DEPTH = 20
FIELD = "manifest"
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(
    text: str, *, complete: Callable[[Unreadable], Refusal] = lambda unreadable: unreadable
) -> list[SubmissionRequest]:
    """Return the workloads of a manifest: one mapping, or several under `workloads:` or as documents of their own.

    `complete` adds to what cannot be read what else is wrong with the rest.

    Refused before anything is built: more than 256 KiB, aliases (a few lines of them may stand for
    gigabytes), depth above 20, keys that come twice. Mistakes in the content name their line.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise TooLarge(f"The manifest has {size:,} bytes; at most {MOST_BYTES:,} are taken.", field=FIELD)
    root = _root(text)
    twice = list(_given_twice(root))
    try:
        asked = parse_all(_content(root))
    except Unreadable as refusal:
        raise _with_lines(complete(refusal), root, twice) from refusal
    except Refusal as refusal:
        raise _with_lines(refusal, root, twice) from refusal
    if twice:
        raise _of_lines(twice)
    return asked


def _root(text: str) -> yaml.Node:
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.AliasEvent):
                raise Refusal(
                    f"Line {_line(event)} uses the alias *{event.anchor}; "
                    "aliases are not taken, write it out.",
                    field=FIELD,
                )
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_DEPTH:
                raise Refusal(f"Line {_line(event)} is nested deeper than {MOST_DEPTH} levels.", field=FIELD)
        documents = list(yaml.compose_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise Refusal(f"Line {line} is not YAML: {error.problem or error.context}.", field=FIELD) from error
    except yaml.YAMLError as error:
        raise Refusal(
            "The manifest is not YAML: it holds characters that YAML does not allow.", field=FIELD
        ) from error
    filled = [node for node in documents if not _is_empty(node)]
    if not filled or not all(isinstance(node, yaml.MappingNode) for node in filled):
        raise Refusal(
            "A manifest is a mapping with name, team, image and what else the workload needs, "
            "or several of them under workloads or parted by ---.",
            field=FIELD,
        )
    return filled[0] if len(filled) == 1 else _together(filled)


def _is_empty(node: yaml.Node) -> bool:
    """Return whether nothing stands in a document, as after a last `---`."""
    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")


def _together(documents: Sequence[yaml.Node]) -> yaml.Node:
    """Return several documents as one with all their workloads."""
    first = documents[0]
    items: list[yaml.Node] = []
    for document in documents:
        [(key, value), *others] = document.value or [(None, None)]
        several = key is not None and key.value == "workloads" and not others
        items += value.value if several and isinstance(value, yaml.SequenceNode) else [document]
    key = yaml.ScalarNode("tag:yaml.org,2002:str", "workloads", first.start_mark, first.start_mark)
    workloads = yaml.SequenceNode("tag:yaml.org,2002:seq", items, first.start_mark, documents[-1].end_mark)
    return yaml.MappingNode(
        "tag:yaml.org,2002:map", [(key, workloads)], first.start_mark, documents[-1].end_mark
    )


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _content(root: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None) or root.start_mark
        what = getattr(error, "problem", None) or str(error)
        raise Refusal(f"Line {mark.line + 1} cannot be read: {what}.", field=FIELD) from error


def _given_twice(node: yaml.Node) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key.value, str):
                if key.value in seen:
                    yield f"Line {key.start_mark.line + 1} gives {key.value!r} again."
                seen.add(key.value)
            yield from _given_twice(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _given_twice(item)


def _with_lines(refusal: Refusal, root: yaml.Node, told_before: Sequence[str] = ()) -> Refusal:
    """Return the refusal as one about the manifest, each sentence with the line of its key where there is
    one, after those that were `told_before`.
    """
    lines = _lines(root, "")
    told = list(told_before)
    for place, sentence in refusal.fields.items():
        # A list of one is refused like a single workload: without an index.
        inner = f"workloads[0].{place}"
        line = lines.get(place) or lines.get(inner) or lines.get(place.rpartition(".")[0])
        key = place.rpartition(".")[2]
        # A sentence that does not speak of its key is told with it, as it stands in the text.
        words = re.escape(key.removesuffix("s")).replace("_", "[_ ]")
        named = sentence if re.search(rf"\b{words}", sentence, re.IGNORECASE) else f"{key}: {sentence}"
        told.append(f"Line {line}: {named}" if line else sentence)
    return _of_lines(told, refusal.code)


def located(refusal: Refusal, text: str) -> Refusal:
    """Return what was refused of a manifest that can be read as one about it, each sentence with its line."""
    return _with_lines(refusal, _root(text)) if refusal.fields else refusal


def _of_lines(told: list[str], code: str = Refusal.code) -> Refusal:
    """Return a refusal of a manifest: a line of text for each of these sentences."""
    return Refusal("\n".join(told), field=FIELD, code=code)


def _lines(node: yaml.Node, place: str) -> dict[str, int]:
    found: dict[str, int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = f"{place}.{key.value}" if place else str(key.value)
            found[inner] = key.start_mark.line + 1
            if not place and key.value == "workloads":
                found |= _lines(value, "workloads")
    elif isinstance(node, yaml.SequenceNode) and place == "workloads":
        for index, item in enumerate(node.value):
            found[f"workloads[{index}]"] = item.start_mark.line + 1
            found |= _lines(item, f"workloads[{index}]")
    return found


def content_of(
    workload: Workload, pool_slugs: Mapping[str, str], *, user: "User", needs: Sequence[ShownNeed] = ()
) -> dict[str, Any]:
    """Return what a workload was asked for, as a submission would say it again; defaults are left out.

    Values of variables that the user may not see are None, which a submission refuses: nothing else is run instead.

    `needs` are those that it starts after. `pool_slugs` gives the slugs of the pools by their ids as text. The
    workload's team must be loaded.
    """
    asked: dict[str, Any] = {
        "name": workload.name,
        "team": workload.team.slug,
        "job_class": str(workload.job_class),
        "priority": workload.priority,
        "runs_in": workload.runs_in or "",
        "image": workload.image,
        "working_dir": workload.working_dir or "",
        "command": workload.command,
        "environment": variables.told(user, workload),
        "credentials": workload.credentials or [],
        "mounts": [as_text(each) for each in workload.mounts or []],
        "labels": workload.labels or {},
        "annotations": workload.annotations or {},
        "pods": workload.pods,
        "min_pods": None if workload.is_gang else workload.min_pods,
        "gpus": quantities.gpus(workload.gpu_milli) if workload.gpu_milli is not None else None,
        "gpu_memory_mib": workload.gpu_memory_mib,
        "cpu": 0 if CPU in (workload.defaults or ()) else quantities.gpus(workload.cpu_milli),
        "memory_mib": 0 if MEMORY in (workload.defaults or ()) else workload.memory_mib,
        "shm_mib": workload.shm_mib,
        "scratch_mib": workload.scratch_mib,
        "gpu_types": workload.gpu_types,
        "node_selector": workload.node_selector,
        "tolerations": workload.tolerations,
        "partition": workload.partition,
        "topology_required": workload.topology_required,
        "topology_preferred": workload.topology_preferred,
        "pools": [pool_slugs[str(pool)] for pool in workload.pool_choice if str(pool) in pool_slugs],
        "time_limit": duration_text(workload.time_limit_seconds).replace(" ", "") or NO_LIMIT,
        "grace_seconds": workload.grace_seconds,
        "on_preemption": str(workload.on_preemption),
        "max_requeues": workload.max_requeues,
        "max_retries": workload.max_retries,
        **times.asked(workload),
        "fail_if_impossible": workload.fail_if_impossible,
        "read_notes": bool(workload.read_notes),
        "depends_on": [need.written for need in needs],
    }
    # What its class has by now may be another: all that it got from it is said.
    always = {"name", "team", "image", "pods", *OF_CLASS}
    usual = {name: field.get_default(call_default_factory=True) for name, field in _FIELDS.items()}
    return {
        name: value
        for name, value in asked.items()
        if name in always or (value is not None and value != usual.get(name))
    }


OF_CLASS = ("job_class", "priority", "time_limit", "on_preemption", "max_retries")
"""What a submission has by its job class where it says nothing."""
_FIELDS = SubmissionRequest.model_fields


def to_yaml(content: Mapping[str, Any]) -> str:
    """Return a submission as YAML, in the order of its keys."""
    text: str = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=100)
    return text
