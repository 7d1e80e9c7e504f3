"""What is wrong with a command as it was typed, in the words of the rest: the value, and what is allowed.

`LazyGroup` applies it to all commands. What commands say themselves stays as it is.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import Any

import click

from chamber.words import nearest

TOO_MUCH, NO_VALUE = "Got unexpected extra argument", "does not take a value."
"""How those of click's sentences begin and end that no class of its errors tells from others."""


@contextmanager
def in_our_words(context: click.Context | None = None) -> Iterator[None]:
    """Word a usage error of click's anew."""
    try:
        yield
    except click.UsageError as error:
        sentence = _sentence(error, error.ctx or context)
        if sentence is None:
            raise
        raise click.UsageError(sentence, ctx=error.ctx) from error


def with_values_told(command: click.Command) -> None:
    """Have the parameters of a command, and of those below it, name the values that they refuse."""
    for parameter in command.params:
        read: Callable[[click.Context, Any], Any] = parameter.type_cast_value
        if not isinstance(read, partial):
            told = partial(_read, parameter, read)
            parameter.type_cast_value = told  # type: ignore[method-assign]  # for this one parameter
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        with_values_told(below)


def _read(
    parameter: click.Parameter, read: Callable[[click.Context, Any], Any], context: click.Context, given: Any
) -> Any:
    try:
        return read(context, given)
    except click.BadParameter as error:
        value = next((each for each in _each(given) if _is_refused(parameter, each, context)), given)
        sentence = _refused(parameter, value) or f"{_name(parameter)}: {error.message}"
        raise click.UsageError(sentence, ctx=context) from error


def _each(given: Any) -> Iterable[Any]:
    """Return the values of a parameter that may come several times, each for itself."""
    return given if isinstance(given, tuple | list) else [given]


def _is_refused(parameter: click.Parameter, value: Any, context: click.Context) -> bool:
    try:
        parameter.type(value, param=parameter, ctx=context)
    except click.BadParameter:
        return True
    return False


def _refused(parameter: click.Parameter, value: Any) -> str:
    """Return the sentence about a value of one of click's own types; "" for those that have words of their own."""
    # It imports pydantic, which a command that is right need not wait for.
    from chamber import invalid

    kind, name = parameter.type, _name(parameter)
    if isinstance(kind, click.Choice):
        return invalid.not_among(name, value, _choices(kind))
    if isinstance(kind, click.IntRange | click.FloatRange):
        noun = "a whole number" if isinstance(kind, click.IntRange) else "a number"
        return f"{name} is {value!r:.80}; it must be {noun}{_bounds(kind)}."
    told = {"integer": "int_type", "float": "float_type", "boolean": "bool_type", "uuid": "uuid_type"}
    return invalid.told(told[kind.name], name, value) if kind.name in told else ""


def _bounds(kind: click.IntRange | click.FloatRange) -> str:
    if kind.min is not None and kind.max is not None:
        return f" from {kind.min:,} to {kind.max:,}"
    if kind.min is not None:
        return f" of at least {kind.min:,}"
    return f" of at most {kind.max:,}" if kind.max is not None else ""


def _choices(kind: click.Choice[Any]) -> list[str]:
    return [str(choice.value if isinstance(choice, Enum) else choice) for choice in kind.choices]


def _name(parameter: click.Parameter) -> str:
    """Return what a person types for a parameter: `--pods`, `NAME`."""
    if isinstance(parameter, click.Argument):
        return parameter.human_readable_name
    return max(parameter.opts, key=len)


def _sentence(error: click.UsageError, context: click.Context | None) -> str | None:
    """Return a usage error of click's in our words; None for one that the project says itself."""
    if isinstance(error, click.MissingParameter):
        return _missing(error)
    if isinstance(error, click.NoSuchOption):
        known = [name for each in _parameters(context) for name in each.opts if name.startswith("-")]
        return f"There is no option {error.option_name!r}.{nearest(error.option_name, known)}"
    if isinstance(error, click.exceptions.NoSuchCommand):
        group = context.command if context else None
        known = list(group.commands) if isinstance(group, click.Group) else []
        there = f" There are {', '.join(known)}." if known else ""
        return f"There is no command {error.command_name!r}.{nearest(error.command_name, known) or there}"
    if isinstance(error, click.BadOptionUsage):
        needs = "takes no value" if error.message.endswith(NO_VALUE) else "needs a value"
        return f"{error.option_name} {needs}."
    if error.message.startswith(TOO_MUCH) and context:
        extra = error.message.partition("(")[2].rstrip(").")
        takes = [_name(each) for each in _parameters(context) if isinstance(each, click.Argument)]
        return (
            f"{extra!r:.80} is too much: {context.command_path} takes {', '.join(takes) or 'no arguments'}."
        )
    return None


def _missing(error: click.MissingParameter) -> str:
    if error.param is None:
        return "An argument is missing."
    kind, name = error.param.type, _name(error.param).removesuffix("...")
    allowed = (
        f"; allowed are {', '.join(map(repr, _choices(kind)))}" if isinstance(kind, click.Choice) else ""
    )
    return f"{name} is missing{allowed}."


def _parameters(context: click.Context | None) -> list[click.Parameter]:
    return context.command.get_params(context) if context else []
