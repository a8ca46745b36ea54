"""What a study is: tasks x variants x seeds, a budget, metrics and judges. A TOML file or a Python object."""

import itertools
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..judging.suite import chosen
from ..models.attention_spec import AttentionSpec, parse_attention
from .results import Results
from .tasks import StudyTask, is_own, task_of
from .toml_lines import line_of
from .trial import TRIVIAL

QUICK = Path(__file__).with_name("quick.toml")  # the study that comes with Regard


class Wrong(ValueError):
    """What does not fit together, and which entry it is about."""

    def __init__(self, said: str, *path: str | int):
        super().__init__(said)
        self.path = path


class SpecModel(BaseModel):
    """A table of a study file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskPart(SpecModel):
    """A task: an experiment of `regard train` (retrieval, sst, ...), gat, trivial, or a function of one's own.

    task      its kind, or "module:function"
    name      what it is called in tables; its kind unless given
    small     the small setting of an experiment
    options   of the experiment or the function: {data = "MUTAG"}
    metrics   of a function: which way is better, {accuracy = "higher", error = "lower"}
    drawn     of a function: whether a seed draws other test instances
    """

    task: str
    name: str = ""
    small: bool = False
    options: dict[str, Any] = Field(default_factory=dict)
    metrics: dict[str, Literal["higher", "lower"]] = Field(default_factory=dict)
    drawn: bool = True

    @model_validator(mode="after")
    def _known(self) -> "TaskPart":
        task_of(self.model_dump())  # refuses with a sentence
        if not self.name:
            object.__setattr__(self, "name", self.task)
        return self


def _listed(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else [value]


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Counts = Annotated[tuple[int, ...], BeforeValidator(_listed)]
Switches = Annotated[tuple[bool, ...], BeforeValidator(_listed)]


class VariantPart(SpecModel):
    """A variant by the words of the taxonomy; a list anywhere makes a grid of all combinations.

    attention   the short name, such as "dot+entmax15", "uniform", "mean", "none"; instead of score and align
    given       a name as it stands in a list of names, for tasks that are functions too
    """

    given: str = ""
    attention: Names = ()
    score: Names = ()
    align: Names = ()
    heads: Counts = (1,)
    hops: Counts = (1,)
    features: Switches = (False,)
    frozen: Switches = (False,)
    query: Names = ("",)

    @model_validator(mode="after")
    def _possible(self) -> "VariantPart":
        if not self.given and bool(self.attention) == bool(self.score or self.align):
            raise ValueError("give attention = (a short name), or score and align: one of the two ways.")
        self.ways()
        return self

    def ways(self) -> list[str]:
        """The short names of all combinations, in their order."""
        if self.given:
            return [self.given]
        if self.attention:
            bases = [(way.score, way.align) for way in map(parse_attention, self.attention)]
        else:
            bases = list(itertools.product(self.score or ("additive",), self.align or ("softmax",)))
        rest = itertools.product(bases, self.heads, self.hops, self.features, self.frozen, self.query)
        return [
            str(AttentionSpec(*base, heads, hops, by, fixed, asked)) for base, heads, hops, by, fixed, asked in rest
        ]


def _named(value: Any) -> Any:
    return {"given": value} if isinstance(value, str) else value


class Budget(SpecModel):
    """What every variant may spend, the same for all: training steps (rounded up to whole epochs), or epochs.

    Without either it is what the task's own recipe says; training is never stopped early, and the best epoch is kept.
    """

    steps: int | None = Field(None, ge=1)
    epochs: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _one(self) -> "Budget":
        if self.steps is not None and self.epochs is not None:
            raise ValueError("give steps or epochs, not both.")
        return self


class Study(SpecModel):
    """Tasks x variants x seeds, all else equal.

    baseline   the variant that others are compared with; the first unless given
    seeds      how many (0, 1, ...) or which
    metrics    which numbers are reported; all of a task unless given
    judges     tests of `regard.judging` to run on each trained model
    threads    of one trial; results depend on it and on nothing else of how a study is spread
    devices    how many processes share the batches of one trial (Fabric's DDP), each with its GPU on "cuda"
    retries    how often a trial that failed is tried again
    records    how many test examples of each trained model are recorded beside its checkpoint
    board      write TensorBoard's files beside it too
    modules    the folder in which modules of functions of one's own stand; that of the file, without one the current
    """

    name: str = Field(pattern=r"^[\w.-]{1,80}$")
    tasks: tuple[TaskPart, ...] = Field(min_length=1)
    variants: tuple[Annotated[VariantPart, BeforeValidator(_named)], ...] = Field(min_length=1)
    baseline: str = ""
    seeds: tuple[int, ...] = tuple(range(10))
    small: bool = False
    budget: Budget = Field(default_factory=lambda: Budget(steps=None, epochs=None))
    metrics: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    device: str = "cpu"
    devices: int = Field(1, ge=1)
    precision: str = "32-true"
    threads: int = Field(1, ge=1)
    retries: int = Field(2, ge=0)
    records: int = Field(0, ge=0)
    board: bool = False
    modules: str = ""

    @model_validator(mode="before")
    @classmethod
    def _spread_small(cls, given: Any) -> Any:
        """`small` of the study is that of every task that does not say its own."""
        if not isinstance(given, dict) or not isinstance(given.get("tasks"), (list, tuple)):
            return given
        small = bool(given.get("small", False))
        tasks = [{"task": one} if isinstance(one, str) else one for one in given["tasks"]]
        return given | {"tasks": [{"small": small} | one if isinstance(one, dict) else one for one in tasks]}

    @field_validator("seeds", mode="before")
    @classmethod
    def _counted(cls, given: Any) -> Any:
        if isinstance(given, int) and not isinstance(given, bool):
            if given < 1:
                raise ValueError(f"seeds = {given}: expected 1 or more, or a list such as [0, 1, 2].")
            return tuple(range(given))
        if isinstance(given, (list, tuple)) and (not given or len(set(given)) < len(given)):
            raise ValueError(f"seeds = {list(given)}: expected different whole numbers, at least one.")
        return given

    @model_validator(mode="after")
    def _fits(self) -> "Study":
        names = [task.name for task in self.tasks]
        if len(set(names)) < len(names):
            raise Wrong('two tasks have one name: give each its own, name = "...".', "tasks")
        ways = self.ways()
        baseline = self.baseline or next(iter(ways))
        baseline = ways.get(baseline, baseline)
        if baseline not in ways.values():
            close = get_close_matches(baseline, ways.values(), n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the variants are {', '.join(ways.values())}."
            raise Wrong(f"{baseline!r} is no variant of this study: {hint}", "baseline")
        object.__setattr__(self, "baseline", baseline)
        if self.judges:
            try:
                chosen(self.judges)
            except ValueError as problem:
                raise Wrong(str(problem), "judges") from problem
        known = {name for task in self.parts().values() for name in task.measures}
        for place, metric in enumerate(self.metrics):
            if known and metric not in known:
                raise Wrong(
                    f"{metric!r} is measured by none of these tasks; they have {', '.join(sorted(known))}.",
                    "metrics",
                    place,
                )
        return self

    def ways(self) -> dict[str, str]:
        """Every variant as it was given, and by the shortest name that all tasks take it by."""
        made: dict[str, str] = {}
        tasks = self.parts().values()
        for place, part in enumerate(self.variants):
            for way in part.ways():
                try:
                    found = {task.checked(way) for task in tasks}
                except ValueError as problem:
                    raise Wrong(str(problem), "variants", place) from problem
                name = found.pop() if len(found) == 1 else way
                if name in made.values():
                    raise Wrong(f"the variant {name!r} stands twice; leave one of them out.", "variants", place)
                made[way] = name
        return made

    @classmethod
    def read(cls, path: "str | Path") -> "Study":
        """From a TOML file; what is wrong with it is told with its line and what to write instead.

        `quick` names the study that comes with Regard.
        """
        path = QUICK if str(path) == QUICK.stem and not Path(path).exists() else Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"There is no study {path}: write one as a TOML file, or run quick, which comes with Regard."
            )
        text = path.read_text(encoding="utf-8")
        try:
            plain = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise ValueError(f"{path} is not TOML: {problem}.") from problem
        try:
            return cls.model_validate(plain)._beside(path.parent)
        except ValidationError as problem:
            told = [f"{path}, line {line_of(text, _path(one))}: {_said(one)}" for one in problem.errors()]
            raise ValueError("\n".join(dict.fromkeys(told))) from problem

    def _beside(self, folder: Path) -> "Study":
        """The same study, which knows where its functions stand, if it has any."""
        if not any(is_own(task.call) for task in self.parts().values()):
            return self
        return self.model_copy(update={"modules": str((folder / self.modules).resolve())})

    def run(self, out: "str | Path | None" = None, **options: Any) -> Results:
        """Run what is missing and return the table; options as in `studies.running.run`."""
        from .run import run

        return run(self, out, **options)

    def parts(self) -> dict[str, StudyTask]:
        return {task.name: task_of(task.model_dump()) for task in self.tasks}

    def jobs(self) -> list[dict[str, Any]]:
        """Every trial as JSON, task by task and seed by seed, so that loaded data serve all variants."""
        made, variants = [], tuple(self.ways().values())
        shared = {
            "budget": self.budget.model_dump(exclude_none=True),
            "device": self.device,
            "precision": self.precision,
            "threads": self.threads,
            "judges": list(self.judges),
            "records": self.records,
            "devices": self.devices,
            "board": self.board,
        }
        for name, task in self.parts().items():
            for place, seed in enumerate(self.seeds):
                beside = [TRIVIAL] if task.trivial and (task.drawn or place == 0) else []
                for variant in (*variants, *beside):
                    made.append(
                        shared
                        | {"task": name, "variant": variant, "seed": seed, "call": task.call, "options": task.options}
                    )
        return made

    def plain(self) -> dict[str, Any]:
        """As JSON, for the store: variants by their names."""
        return self.model_dump(mode="json") | {"variants": list(self.ways().values())}


def _path(problem: Any) -> tuple[str | int, ...]:
    cause = problem.get("ctx", {}).get("error")
    return cause.path if isinstance(cause, Wrong) else problem["loc"]


def _said(problem: Any) -> str:
    """A sentence of pydantic's, with the way to the value and what to write."""
    where = ".".join(str(part) for part in _path(problem))
    said = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        parts: dict[str, type[BaseModel]] = {"tasks": TaskPart, "variants": VariantPart, "budget": Budget}
        known = list(parts.get(str(problem["loc"][0]), Study).model_fields)
        close = get_close_matches(str(problem["loc"][-1]), known, n=1)
        said = f"there is no such entry; {f'did you mean {close[0]!r}?' if close else 'there are ' + ', '.join(known)}"
    elif problem["type"] == "missing":
        said = f"this entry is missing: write {problem['loc'][-1]} = ..."
    elif not said.endswith((".", "?")):
        said = f"{said}; {problem['input']!r} was given."
    return f"{where}: {said}" if where else said
