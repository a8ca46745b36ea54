"""Start and interruption of the command `regard`: its import path, and Ctrl-C at any time.

Importing torch takes a second or more, and an interpreter that shuts down runs code of many packages: an interrupt
then would be a traceback of their code. Nothing needs cleaning up at that time, so the process prints one line and
exits with status 130. While a command runs, Ctrl-C raises KeyboardInterrupt as usual, so that commands clean up. The
interrupt is also recorded, since a module that is being imported may turn it into another error.

Imported by regard/__init__.py before torch is, in the process of the command alone.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

STOPPED = "Stopped."
EXIT_STATUS = 130  # 128 + SIGINT, as shells count

_interrupts: list[int] = []


def is_command() -> bool:
    """Whether this process is the command, by its console script or as `python -m regard`; its workers are not."""
    if "--multiprocessing-fork" in sys.orig_argv:  # a spawned process, which has its parent's sys.argv
        return False
    called = sys.argv[0] if sys.argv else ""
    if _by_module(called):
        return True
    return os.path.splitext(os.path.basename(called))[0] in ("regard", "regard-script")


def _by_module(called: str) -> bool:
    """`sys.argv[0]` is "-m" until Python has found the module: here `regard` is being imported."""
    if called == "-m":
        return "regard" in sys.orig_argv
    return called == os.path.join(os.path.dirname(os.path.dirname(__file__)), "__main__.py")


def forget_current_folder() -> None:
    """Removes the current folder, which `python -m` puts first on sys.path: a torch.py there would be imported."""
    if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
        del sys.path[0]


def end_on_interrupt() -> None:
    """Makes Ctrl-C end the process at once. Ignored interrupts (nohup) stay ignored."""
    _handle_by(_end)


def raise_on_interrupt() -> None:
    """Makes Ctrl-C raise KeyboardInterrupt."""
    _handle_by(_raise)


def was_interrupted() -> bool:
    return bool(_interrupts)


def _handle_by(handler: Callable[[int, FrameType | None], None]) -> None:
    plain = signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end, _raise)
    if plain and threading.current_thread() is threading.main_thread() and is_command():
        signal.signal(signal.SIGINT, handler)


def _raise(number: int, frame: FrameType | None) -> None:
    _interrupts.append(number)
    raise KeyboardInterrupt


def _end(number: int, frame: FrameType | None) -> None:
    if not _interrupts:  # otherwise the line is already printed
        os.write(2, f"{STOPPED}\n".encode())
    os._exit(EXIT_STATUS)
