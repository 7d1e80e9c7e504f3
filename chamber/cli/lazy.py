"""A group of commands that imports a command's module only when that command is run."""

from importlib import import_module
from typing import Any

import click

from chamber.cli.status import Exit
from chamber.cli.usage import in_our_words, with_values_told
from chamber.words import nearest

Sections = dict[str, dict[str, tuple[str, str]]]


class LazyGroup(click.Group):
    """Commands by section and name: where each is (`module:attribute`), and its line of help."""

    def __init__(self, *args: Any, sections: Sections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.places = {name: entry[0] for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the sections."""
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command; None where there is none of that name."""
        place = self.places.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        with_values_told(command)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read what stands before the command; what is wrong with it is said in our words."""
        with in_our_words(click.Context(self, parent=parent, info_name=info_name)):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it without a word, with the status that shells have for it."""
        try:
            with in_our_words(ctx):
                return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(Exit.INTERRUPTED)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a name that is not one is refused with the nearest that is."""
        if args and args[0] not in self.places and not args[0].startswith("-"):
            ctx.fail(f"There is no command {args[0]!r}.{nearest(args[0], self.places)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands by section, without importing any."""
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry[1]) for name, entry in commands.items()])
