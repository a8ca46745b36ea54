"""python -m regard: the command `regard`, where it is not on the PATH."""

from .cli.app import app

app(prog_name="regard")
