"""What all commands share: a console; a problem that a user can put right becomes a sentence, and so does Ctrl-C; a
device."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from . import interrupts as starting
from .console import Printer

_stopped: list[str] = []  # what was said of Ctrl-C


def console(stderr: bool = False, **options: Any) -> Console:
    """Where commands print. [brackets] and :colons: are text, since names that a user gave may have them, and control
    characters are escaped; what is to stand out is a Text with a style."""
    return Printer(stderr=stderr, markup=False, emoji=False, highlight=False, **options)


class Command(typer.Typer):
    """The whole command: Ctrl-C ends it with exit status 130 and one line, whenever it comes."""

    def __call__(self, *given: Any, **options: Any) -> Any:
        starting.raise_on_interrupt()
        try:
            return super().__call__(*given, **options)
        except BaseException as ended:  # however it ended, an exit among them: next the interpreter shuts down
            with suppress(OSError, ValueError):  # a pipe that nobody reads any more
                sys.stdout.flush()
            starting.end_on_interrupt()
            well = isinstance(ended, SystemExit) and not ended.code  # a server ends so
            if starting.was_interrupted() and not well:
                if not _stopped:
                    say_stopped(starting.STOPPED)
                raise SystemExit(starting.EXIT_STATUS) from None
            raise


def say_stopped(sentence: str) -> None:
    """The one line that Ctrl-C is answered with."""
    _stopped.append(sentence)
    console(stderr=True).print(sentence)


def stop(sentence: str) -> NoReturn:
    console(stderr=True).print(Text.assemble(("regard:", "red"), f" {sentence}"), soft_wrap=True)
    raise typer.Exit(1)


@contextmanager
def told() -> Iterator[None]:
    """What a user can put right becomes a sentence."""
    from ..recording.pretrained import NoModel

    try:
        yield
    except (OSError, ValueError, NoModel) as problem:
        stop(str(problem))


@contextmanager
def going_on(kept: bool = True) -> Iterator[None]:
    """Ctrl-C on a command that keeps what is done is answered with what comes of it; the exit status stays 130."""
    try:
        yield
    except KeyboardInterrupt:
        if kept:
            say_stopped("Stopped; the same command goes on from what is kept.")
        raise


@contextmanager
def extra(name: str) -> Iterator[None]:
    """A package that is missing becomes a sentence that says what to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] == "regard":
            raise
        said = str(missing)
        stop(
            said
            if "pip install" in said
            else f"this needs {missing.name}, which is not installed: pip install 'regard[{name}]'."
        )


def there(device: str) -> str:
    """A device of this machine, or a sentence before anything that takes long."""
    import torch

    try:
        asked = torch.device(device)
    except RuntimeError:
        stop(f"--device {device}: expected cpu, cuda, or cuda:1 for the second GPU.")
    count = torch.cuda.device_count()
    if asked.type == "cuda" and (asked.index or 0) >= count:
        stop(
            f"--device {device}: this machine has {count or 'no'} CUDA device{'s' * (count != 1)}. Leave --device "
            "out to run on the CPU."
        )
    return device


Device = Annotated[str, typer.Option(help="Where to run: cpu, cuda, cuda:1.", callback=there)]


def check_folder(out: Path | None) -> None:
    """Before anything that takes long."""
    if out is not None and out.exists() and not out.is_dir():
        stop(f"--out {out} is a file; name a folder.")


def check_place(out: Path) -> None:
    """Before anything that takes long."""
    if out.is_dir():
        stop(f"--out {out} is a folder; name a file in it.")
    if not out.resolve().parent.is_dir():
        stop(f"--out {out}: There is no folder {out.parent}; make it first.")


def given(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        stop("give the text to read, or --file with a text file: one of them.")
    return text if file is None else file.read_text(encoding="utf-8")  # type: ignore[return-value]
