"""Random differential tests: `make fuzz`, and on a card `make fuzz-gpu`.

    python tests/fuzz [cpu|triton|cuda] [--configs 500] [--each 4] [--minutes 9] [--workers 2]
    python tests/fuzz --case cpu-17.3      one case again, as its line says

Cases run in worker processes, which a fault cannot take along: it is told as the case that had it. What is done is
kept in build/fuzz, so that a run that was stopped, or that its minutes ended, goes on where it was; --again starts
anew. Leaves with 1 where a case was wrong.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

WORKER = Path(__file__).with_name("worker.py")
DEFAULTS = {"cpu": (500, 4), "triton": (120, 2), "cuda": (150, 20)}  # configurations, variations of each
console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)


class Worker:
    """One process, started anew after each case that ended it."""

    def __init__(self, kind: str, limit: float, sanitizer: bool):
        self.kind, self.limit, self.sanitizer, self.process = kind, limit, sanitizer, None

    async def run(self, name: str) -> dict[str, object]:
        if self.process is None:
            await self._start()
        start = time.perf_counter()
        self.process.stdin.write(f"{name}\n".encode())
        try:
            await self.process.stdin.drain()
            line = await asyncio.wait_for(self.process.stdout.readline(), self.limit)
            if line:
                return json.loads(line)
            how = f"the process ended with {_said(await self.process.wait())}: {self._last_words()}"
        except (BrokenPipeError, ConnectionResetError):
            how = f"the process ended with {_said(await self.process.wait())}: {self._last_words()}"
        except TimeoutError:
            how = f"it took longer than {self.limit:g} s"
        await self.stop()
        return {"case": name, "what": name, "ran": [], "wrong": [how], "seconds": round(time.perf_counter() - start, 2)}

    async def _start(self) -> None:
        environment = {**os.environ, "MALLOC_PERTURB_": "1", "OMP_NUM_THREADS": "1"}
        if self.kind == "triton" or not Path("/dev/nvidia0").exists():
            environment["TRITON_INTERPRET"] = "1"
        tool = ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "86"] if self.sanitizer else []
        if self.sanitizer:
            environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
        self.words = open(f"build/fuzz/worker-{id(self)}.txt", "w+b")  # noqa: SIM115 it lives as long as the process
        self.process = await asyncio.create_subprocess_exec(
            *tool, sys.executable, WORKER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=self.words, env=environment, limit=1 << 24,
        )  # fmt: skip

    def _last_words(self) -> str:
        self.words.seek(0)
        return " ".join(self.words.read().decode(errors="replace").split())[-300:]

    async def stop(self) -> None:
        if self.process is None:
            return
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        self.words.close()
        Path(self.words.name).unlink(missing_ok=True)
        self.process = None


def _said(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code}"


def repeat(name: str) -> str:
    """The line that runs a case again."""
    return f"python tests/fuzz --case {name}"


async def run_all(names: list[str], workers: list[Worker], ends: float, on_done) -> None:
    """Each worker takes the next name, until there is none or the time is over."""
    left = iter(names)

    async def work(worker: Worker) -> None:
        for name in left:
            if time.monotonic() > ends:
                break
            on_done(await worker.run(name))
        await worker.stop()

    await asyncio.gather(*(work(worker) for worker in workers))


def names_of(kind: str, first: int, configs: int, each: int) -> list[str]:
    """All first variations before the second ones: a short run has seen every configuration."""
    return [f"{kind}-{number}.{variation}" for variation in range(each) for number in range(first, first + configs)]


def by_configuration(names: list[str]) -> list[str]:
    """On a card a worker keeps what it compiled: variations of one configuration stand together."""
    return sorted(names, key=lambda name: (int(name.split("-")[1].split(".")[0]), int(name.split(".")[1])))


def known(path: Path) -> dict[str, dict[str, object]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {answer["case"]: answer for answer in map(json.loads, filter(None, lines))}


def summary(answers: list[dict[str, object]], planned: int) -> dict[str, object]:
    ran = Counter(name for answer in answers for name in answer["ran"])
    wrong = [answer for answer in answers if answer["wrong"]]
    return {
        "cases": len(answers),
        "planned": planned,
        "configurations": len({str(answer["case"]).split(".")[0] for answer in answers}),
        "by backend": dict(ran.most_common()),
        "wrong": [{key: answer[key] for key in ("case", "what", "wrong")} for answer in wrong],
        "seconds of all": round(sum(float(answer["seconds"]) for answer in answers)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python tests/fuzz")
    parser.add_argument("kind", nargs="?", choices=DEFAULTS, default="cpu", help="what runs the plans")
    parser.add_argument("--configs", type=int, help="how many configurations; what is compiled is one of each")
    parser.add_argument("--each", type=int, help="variations of a configuration: sizes, strides, numbers")
    parser.add_argument("--first", type=int, default=0, help="the first configuration")
    parser.add_argument(
        "--minutes", type=float, default=1e6, help="stop taking cases after so many; the next run goes on"
    )
    parser.add_argument("--limit", type=float, default=1800, help="seconds that a case may take")
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--json", type=Path, help="where the counts are written (build/fuzz/KIND.json)")
    parser.add_argument("--again", action="store_true", help="forget what earlier runs did")
    parser.add_argument("--sanitizer", action="store_true", help="under compute-sanitizer, into results of its own")
    parser.add_argument("--case", nargs="+", help="these cases alone, by name")
    chosen = parser.parse_args()
    if chosen.sanitizer and shutil.which("compute-sanitizer") is None:
        sys.exit("--sanitizer: compute-sanitizer is not on the PATH; it comes with the CUDA toolkit.")
    named = chosen.case[0].split("-")[0] if chosen.case else chosen.kind
    kind = named if named in DEFAULTS else "cpu"
    folder = Path("build/fuzz")
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / f"{kind}{'-sanitizer' if chosen.sanitizer else ''}.jsonl"
    configs, each = (asked or usual for asked, usual in zip((chosen.configs, chosen.each), DEFAULTS[kind], strict=True))
    names = chosen.case or names_of(kind, chosen.first, configs, each)
    done = {} if chosen.again or chosen.case else known(store)
    left = [name for name in names if name not in done]
    if kind == "cuda":
        left = by_configuration(left)
    answers = [done[name] for name in names if name in done]
    workers = [Worker(kind, chosen.limit, chosen.sanitizer) for _ in range(min(chosen.workers, max(1, len(left))))]
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[wrong]} wrong"), console=console,
    )  # fmt: skip
    if answers:
        console.print(f"{len(answers)} of {len(names)} cases are done ({store}); --again runs them anew.")
    with bar, open(os.devnull if chosen.case else store, "w" if chosen.again else "a") as file:
        task = bar.add_task(
            kind, total=len(names), completed=len(answers), wrong=sum(bool(a["wrong"]) for a in answers)
        )

        def on_done(answer: dict[str, object]) -> None:
            answers.append(answer)
            print(json.dumps(answer), file=file, flush=True)
            if answer["wrong"]:
                console.print(
                    f"{repeat(str(answer['case']))}   # {answer['what']}: {answer['wrong'][0]}", soft_wrap=True
                )
            elif chosen.case:
                console.print(f"{answer['what']}: right by {', '.join(answer['ran'])}", soft_wrap=True)
            bar.update(task, advance=1, wrong=sum(bool(a["wrong"]) for a in answers))

        asyncio.run(run_all(left, workers, time.monotonic() + 60 * chosen.minutes, on_done))
    found = summary(answers, len(names))
    if not chosen.case:
        path = chosen.json or store.with_suffix(".json")
        path.write_text(json.dumps(found, indent=1))
        console.print(
            f"{found['cases']} of {found['planned']} cases over {found['configurations']} configurations: {path}"
        )
        console.print(", ".join(f"{name} {count}" for name, count in found["by backend"].items()))
    for each_wrong in found["wrong"] if chosen.case else []:
        for sentence in each_wrong["wrong"]:
            console.print(f"  {sentence}", soft_wrap=True)
    wrong = len(found["wrong"])
    if len(answers) < len(names):
        console.print(f"{len(names) - len(answers)} are left: the same command goes on.")
    console.print(f"{wrong} wrong." if wrong else "None was wrong.")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
