"""A group of commands that imports a command's module only when that command is run."""

from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from chamber.cli.status import Exit

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
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it without a word, with the status that shells have for it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(Exit.INTERRUPTED)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a name that is not one is refused with the nearest that is."""
        if args and args[0] not in self.places and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.places, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"There is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands by section, without importing any."""
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry[1]) for name, entry in commands.items()])
