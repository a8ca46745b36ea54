"""What all commands share: the console, errors and interrupts as one sentence, and checks of --device and --out."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from . import interrupts
from .output.console import Printer

_reported: list[str] = []  # the answers to Ctrl-C so far


def console(stderr: bool = False, **options: Any) -> Console:
    """The console of commands. Rich markup and emoji codes are off, since file names may contain them, and control
    characters are escaped; styled text is a `Text`."""
    return Printer(stderr=stderr, markup=False, emoji=False, highlight=False, **options)


class Command(typer.Typer):
    """The root command: Ctrl-C at any time ends it with exit status 130 and one line."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        interrupts.raise_on_interrupt()
        warnings.showwarning = show_warning(warnings.showwarning)
        try:
            return super().__call__(*args, **options)
        except BaseException as ended:  # any end, SystemExit included: the interpreter shuts down next
            with suppress(OSError, ValueError):  # a closed pipe
                sys.stdout.flush()
            interrupts.end_on_interrupt()
            succeeded = isinstance(ended, SystemExit) and not ended.code  # a server that was interrupted
            if interrupts.was_interrupted() and not succeeded:
                if not _reported:
                    report_interrupt(interrupts.STOPPED)
                raise SystemExit(interrupts.EXIT_STATUS) from None
            raise


def show_warning(otherwise: Callable[..., None]) -> Callable[..., None]:
    """Warnings of Regard are printed as sentences, without the line of code that they point at."""
    package = str(Path(__file__).parents[1])

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any) -> None:
        if filename.startswith(package):
            console(stderr=True).print(Text.assemble(("regard:", "yellow"), f" {message}"), soft_wrap=True)
        else:
            otherwise(message, category, filename, lineno, *rest)

    return show


def report_interrupt(sentence: str) -> None:
    """Print the one line that answers Ctrl-C."""
    _reported.append(sentence)
    console(stderr=True).print(sentence)


def fail(sentence: str) -> NoReturn:
    console(stderr=True).print(Text.assemble(("regard:", "red"), f" {sentence}"), soft_wrap=True)
    raise typer.Exit(1)


@contextmanager
def user_errors() -> Iterator[None]:
    """Errors that the user can fix are printed as one sentence, without a traceback."""
    from ..core.errors import Refused
    from ..recording.pretrained import NoModel

    try:
        yield
    except (OSError, ValueError, NoModel, Refused) as problem:
        fail(str(problem))


@contextmanager
def resumable(saved: bool = True) -> Iterator[None]:
    """A command whose finished work is saved says on Ctrl-C that it can be resumed; the exit status stays 130."""
    try:
        yield
    except KeyboardInterrupt:
        if saved:
            report_interrupt("Stopped; the same command resumes from what is saved.")
        raise


@contextmanager
def requires_extra(name: str) -> Iterator[None]:
    """A missing package is reported with the extra to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] == "regard":
            raise
        message = str(missing)
        fail(
            message
            if "pip install" in message
            else f"this needs {missing.name}, which is not installed: pip install 'regard[{name}]'."
        )


def device_or_error(device: str) -> str:
    """The device, if this machine has it; otherwise fail before any work is done."""
    import torch

    try:
        parsed = torch.device(device)
    except RuntimeError:
        fail(f"--device {device}: expected cpu, cuda, or cuda:1 for the second GPU.")
    count = torch.cuda.device_count()
    if parsed.type == "cuda" and (parsed.index or 0) >= count:
        fail(
            f"--device {device}: this machine has {count or 'no'} CUDA device{'s' * (count != 1)}. Leave --device "
            "out to run on the CPU."
        )
    return device


Device = Annotated[str, typer.Option(help="Where to run: cpu, cuda, cuda:1.", callback=device_or_error)]


def check_output_folder(out: Path | None) -> None:
    """Fail before any work is done if --out is a file."""
    if out is not None and out.exists() and not out.is_dir():
        fail(f"--out {out} is a file; name a folder.")


def check_output_file(out: Path) -> None:
    """Fail before any work is done if --out is a folder, or its folder does not exist."""
    if out.is_dir():
        fail(f"--out {out} is a folder; name a file in it.")
    if not out.resolve().parent.is_dir():
        fail(f"--out {out}: There is no folder {out.parent}; create it first.")


def text_or_file(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        fail("give either a text or --file with a text file.")
    return text if file is None else file.read_text(encoding="utf-8")  # type: ignore[return-value]
