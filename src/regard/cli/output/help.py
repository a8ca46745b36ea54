"""The help of a command group: one line for each command, so that all fit on one screen."""

from typing import Any

from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from regard import load_eager_names

from .. import interrupts
from ..cli_errors import console


def hide_types_of_flags(options: Any) -> None:
    for option in options:
        if getattr(option, "is_flag", False):
            option.display_type_rich = lambda ctx: None


class PlainFlags(TyperCommand):
    """A command outside a list whose flags have no type in its help."""

    def get_params(self, ctx: Any) -> Any:
        options = super().get_params(ctx)
        hide_types_of_flags(options)
        return options


class CommandList(TyperGroup):
    """Commands in the order of definition, each with the first paragraph of its help, grouped by panel."""

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """The command to run, with the library imported unless only its help is asked for."""
        name, command, rest = super().resolve_command(ctx, args)
        asks_help = not {"-h", "--help"}.isdisjoint(rest)
        if not asks_help and not isinstance(command, TyperGroup):
            interrupts.end_on_interrupt()  # an import of torch that is interrupted would be a traceback of torch's code
            load_eager_names()
            interrupts.raise_on_interrupt()
        return name, command, rest

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; its flags are listed without a type, since they take no value."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            hide_types_of_flags(command.get_params(ctx))
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        shown = console()
        shown.print(Text.assemble(("Usage:", "bold"), f"  {ctx.command_path} COMMAND ...\n{self.help}"))
        shown.print(self._commands(ctx))
        options = "  ".join("  ".join(one.opts) for one in self.get_params(ctx))
        shown.print(Text.assemble(("Options:", "bold"), f"  {options}\n{self.epilog}"))

    def _commands(self, ctx: Any) -> Table:
        """Typer lists groups after commands; this keeps the commands and groups of a panel together."""
        panels: dict[str, list[Any]] = {}
        for name in self.list_commands(ctx):
            one: Any = self.get_command(ctx, name)
            panels.setdefault(one.rich_help_panel if isinstance(one.rich_help_panel, str) else "", []).append(one)
        grid = Table.grid(padding=(0, 2))
        for panel, commands in panels.items():
            for place, one in enumerate(commands):
                left = [Text("" if place else panel, "bold")] if panel else []
                grid.add_row(*left, Text(one.name, "bold cyan"), " ".join(one.help.split("\n\n")[0].split()))
        return grid
