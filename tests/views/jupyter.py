"""A JupyterLab of one's own: a free port of this machine alone, a token, settings that are nobody's."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import regard


@contextmanager
def serving(room: Path, cells: Sequence[str]) -> Iterator[str]:
    """The address of a notebook of these cells in a folder; the server and its kernels end with the block."""
    book = {
        "cells": [
            {"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": text, "outputs": [], "execution_count": None}
            for i, text in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (room / "book.ipynb").write_text(json.dumps(book))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    _set(room / ".settings" / "@jupyterlab")
    paths = {f"JUPYTER_{kind}_DIR": str(room / f".{kind.lower()}") for kind in ("CONFIG", "DATA", "RUNTIME")}
    env = (
        os.environ
        | paths
        | {
            "IPYTHONDIR": str(room / ".ipython"),
            "OMP_NUM_THREADS": "1",
            "JUPYTERLAB_SETTINGS_DIR": str(room / ".settings"),
            "PYTHONPATH": str(Path(regard.__file__).parents[1]),
        }
    )
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={room}",
    ]
    with (room / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=room, env=env, stdout=log, stderr=log)
    try:
        _wait(server, f"http://127.0.0.1:{port}/api?token={token}", room / "log")
        yield f"http://127.0.0.1:{port}/lab/tree/book.ipynb?token={token}"
    finally:
        server.terminate()  # it ends its kernels
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def _set(settings: Path) -> None:
    """Every cell is drawn, in sight or not; no news are fetched."""
    chosen = {
        "notebook-extension/tracker": {"windowingMode": "none"},
        "apputils-extension/notification": {"fetchNews": "false"},
    }
    for name, values in chosen.items():
        place = settings / f"{name}.jupyterlab-settings"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(values))


def _wait(server: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
    for _ in range(240):
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended: {log.read_text()[-2000:]}")
        try:
            urllib.request.urlopen(address, timeout=2)
            return
        except OSError:
            time.sleep(0.25)
    raise RuntimeError(f"JupyterLab did not answer within a minute: {log.read_text()[-2000:]}")
