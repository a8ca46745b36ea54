"""The help of a command group: one line for each command, so that all fit on one screen."""

from typing import Any

from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from .cli_errors import console


class CommandList(TyperGroup):
    """Commands in the order of definition, each with the first paragraph of its help, grouped by panel."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        shown = console()
        shown.print(Text.assemble(("Usage:", "bold"), f"  {ctx.command_path} COMMAND ...\n\n{self.help}\n"))
        shown.print(self._commands(ctx))
        options = "  ".join(one.opts[0] for one in self.get_params(ctx))
        shown.print(Text.assemble(("\nOptions:", "bold"), f"  {options}\n{self.epilog}"))

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
