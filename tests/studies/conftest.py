"""What tests of studies share: stores of both kinds, workers that find the tests' own tasks, a small disk."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def tasks_are_found(monkeypatch):
    """Worker processes import tasks_of_tests by its name."""
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parents[1] / "src"), before]))


class Server:
    """A PostgreSQL server of one's own, on a socket in a folder: started, killed and started again."""

    def __init__(self, binaries: Path, folder: Path):
        self.binaries, self.folder, self.data = binaries, folder, folder / "data"
        self.who = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        if self.who:
            shutil.chown(folder, "postgres", "postgres")
        self._run("initdb", "-D", self.data, "-U", "regard", "--auth=trust", "--no-sync", "-E", "UTF8")
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{folder}'\nfsync = off\n")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://regard@/postgres?host={self.folder}"

    def start(self):
        self._run("pg_ctl", "-D", self.data, "-w", "-l", self.folder / "log", "start")

    def stop(self):
        self._run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")

    def _run(self, name, *given):
        command = [str(self.binaries / name), *map(str, given)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **self.who)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    pytest.importorskip("psycopg", reason="psycopg is not installed.")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [shutil.which("initdb")]
    if found[-1] is None:
        pytest.skip("There are no PostgreSQL binaries here (Debian: apt install postgresql).")
    import tempfile

    # the path of a socket must be short, and a user without rights must get there
    folder = Path(tempfile.mkdtemp(prefix="regard-pg-"))
    try:
        made = Server(Path(found[-1]).parent, folder)
    except (LookupError, OSError, subprocess.CalledProcessError) as problem:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"The PostgreSQL server did not start here: {problem}.")
    yield made
    made.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def on_server(server):
    """The URL of a server whose store is empty."""
    import sqlalchemy as sa

    from regard.studies.trial_store import Store

    store = Store(server.url)
    with store.engine.begin() as connection:
        for table in ("regard_attempts", "regard_trials", "regard_studies"):
            connection.execute(sa.text(f"DELETE FROM {table}"))
    store.close()
    return server.url


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    """A fresh store: the path of a file, or the URL of a server."""
    if request.param == "sqlite":
        return str(tmp_path / "store.sqlite")
    return request.getfixturevalue("on_server")


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 4 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, check=False
        )
        if os.geteuid() == 0 and shutil.which("mount")
        else None
    )
    if done is None or done.returncode:
        pytest.skip("A small disk can only be mounted by root, where that is allowed.")
    yield folder
    for _ in range(50):
        if not subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode:
            return
        time.sleep(0.1)
