"""The specification of a study: tasks x variants x seeds, budget, metrics and judges; TOML or Python."""

import itertools
import tomllib
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..data.readers.user_file import content_hash, is_path
from ..judging.suite import chosen
from ..models.attention_spec import AttentionSpec, parse_attention
from .results import Results
from .tasks import StudyTask, is_custom, task_of
from .toml_lines import line_of
from .trial import TRIVIAL
from .tuning import TunedConfiguration, Tuning, tuning_jobs

PATHS = ("data", "gold", "reading")  # options that may be a path to the user's data
QUICK = Path(__file__).with_name("quick.toml")  # the built-in study
LARGEST = 1_000_000  # bytes of a study's file
DEEPEST = 64  # maximum dots of a key: tomllib needs quadratic memory in them
MOST_ERRORS = 20  # maximum number of reported errors


class SpecError(ValueError):
    """A contradiction in a specification, with the path of the entry it concerns."""

    def __init__(self, message: str, *path: str | int):
        super().__init__(message)
        self.path = path


class SpecModel(BaseModel):
    """A table of a study file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskPart(SpecModel):
    """A task: an experiment of `regard train` (retrieval, sst, ...), gat, trivial, or a custom function.

    task      its name, or "module:function"
    name      its label in tables; by default `task`
    small     the small setting of an experiment
    options   keyword arguments of the experiment or the function: {data = "MUTAG"}, {data = "my.csv"}, whose path is
              relative to the TOML file
    metrics   of a custom function: the direction of each, {accuracy = "higher", error = "lower"}
    drawn     of a custom function: whether the test instances depend on the seed
    splits    of a function: how many divisions into training and test part there are, seed i having number i % splits
    overlap   of a function: test instances over training instances where seeds divide one set of data
    tunable   of a function: the hyperparameters that it reads from setting.hyper
    digest    hash of the user's data; set automatically, so that all trials run on the same content
    """

    task: str
    name: str = ""
    small: bool = False
    options: dict[str, Any] = Field(default_factory=dict)
    metrics: dict[str, Literal["higher", "lower"]] = Field(default_factory=dict)
    drawn: bool = True
    digest: str = ""
    splits: int = Field(default=0, ge=0)
    overlap: float = Field(default=0.0, ge=0.0)
    tunable: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_task(self) -> "TaskPart":
        source = task_of(self.model_dump()).source  # refuses with a sentence
        now = content_hash(source) if source else ""
        if self.digest and self.digest != now:
            raise ValueError(
                f"{source} has changed since this study began, and its trials would not be comparable: put the old "
                "file back, or give the study another name."
            )
        object.__setattr__(self, "digest", now)
        if not self.name:
            object.__setattr__(self, "name", self.task)
        return self


def _as_list(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else [value]


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Counts = Annotated[tuple[int, ...], BeforeValidator(_as_list)]
Switches = Annotated[tuple[bool, ...], BeforeValidator(_as_list)]


class VariantPart(SpecModel):
    """A variant of attention; where entries are lists, the grid of all combinations.

    attention   the short name, such as "dot+entmax15", "uniform", "mean", "none"; instead of score and align
    given       a name taken literally, as in a list of names; custom tasks interpret it themselves
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
    def _check_variant(self) -> "VariantPart":
        if not self.given and bool(self.attention) == bool(self.score or self.align):
            raise ValueError("give either attention = (a short name), or score and align.")
        self.short_names()
        return self

    def short_names(self) -> list[str]:
        """The short names of all combinations, in order."""
        if self.given:
            return [self.given]
        if self.attention:
            bases = [(spec.score, spec.align) for spec in map(parse_attention, self.attention)]
        else:
            bases = list(itertools.product(self.score or ("additive",), self.align or ("softmax",)))
        grid = itertools.product(bases, self.heads, self.hops, self.features, self.frozen, self.query)
        return [
            str(AttentionSpec(*base, heads, hops, features, frozen, query))
            for base, heads, hops, features, frozen, query in grid
        ]


def _as_variant(value: Any) -> Any:
    return {"given": value} if isinstance(value, str) else value


class Budget(SpecModel):
    """The training budget, the same for every variant: steps (rounded up to whole epochs), or epochs.

    By default the epochs of the task's own recipe. There is no early stopping; the best epoch is kept.
    """

    steps: int | None = Field(None, ge=1)
    epochs: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _check_exclusive(self) -> "Budget":
        if self.steps is not None and self.epochs is not None:
            raise ValueError("give steps or epochs, not both.")
        return self


class Study(SpecModel):
    """Tasks x variants x seeds, all else equal.

    baseline   the variant that others are compared with; by default the first
    seeds      their number (0, 1, ...) or a list
    metrics    the metrics to report; by default all of a task
    judges     tests of `regard.judging` to run on each trained model
    threads    CPU threads of one trial; results depend on it, and on nothing else of how a study is distributed
    devices    processes among which each batch of a trial is divided (Fabric's DDP), on "cuda" one GPU each
    retries    how often a failed trial is retried
    records    how many test examples of each trained model are recorded beside its checkpoint
    board      also write TensorBoard logs beside it
    modules    the folder with the modules of custom tasks; by default that of the file, else the current one
    tuning     how many configurations every variant tries before its seeds are run, and from which space
    match      the hyperparameter, a width, that is set so that each variant has as many parameters as the baseline
    """

    name: str = Field(pattern=r"^[\w.-]{1,80}$")
    tasks: tuple[TaskPart, ...] = Field(min_length=1)
    variants: tuple[Annotated[VariantPart, BeforeValidator(_as_variant)], ...] = Field(min_length=1)
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
    tuning: Tuning | None = None
    match: str = ""

    @model_validator(mode="before")
    @classmethod
    def _inherit_small(cls, given: Any) -> Any:
        """`small` of the study is the default of its tasks."""
        if not isinstance(given, dict) or not isinstance(given.get("tasks"), (list, tuple)):
            return given
        small = bool(given.get("small", False))
        tasks = [{"task": one} if isinstance(one, str) else one for one in given["tasks"]]
        return given | {"tasks": [{"small": small} | one if isinstance(one, dict) else one for one in tasks]}

    @field_validator("seeds", mode="before")
    @classmethod
    def _expand_seeds(cls, given: Any) -> Any:
        if isinstance(given, int) and not isinstance(given, bool):
            if given < 1:
                raise ValueError(f"seeds = {given}: expected 1 or more, or a list such as [0, 1, 2].")
            return tuple(range(given))
        if isinstance(given, (list, tuple)) and (not given or len(set(given)) < len(given)):
            raise ValueError(f"seeds = {list(given)}: expected distinct integers, at least one.")
        return given

    @model_validator(mode="after")
    def _check_study(self) -> "Study":
        names = [task.name for task in self.tasks]
        if len(set(names)) < len(names):
            raise SpecError('two tasks have the same name: give each its own, name = "...".', "tasks")
        variants = self.variant_names()
        baseline = self.baseline or next(iter(variants))
        baseline = variants.get(baseline, baseline)
        if baseline not in variants.values():
            close = get_close_matches(baseline, variants.values(), n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the variants are {', '.join(variants.values())}."
            raise SpecError(f"{baseline!r} is no variant of this study: {hint}", "baseline")
        object.__setattr__(self, "baseline", baseline)
        if self.judges:
            try:
                chosen(self.judges)
            except ValueError as problem:
                raise SpecError(str(problem), "judges") from problem
        self._check_hyperparameters()
        metrics = {name for task in self.parts().values() for name in task.measures}
        for place, metric in enumerate(self.metrics):
            if metrics and metric not in metrics:
                raise SpecError(
                    f"{metric!r} is a metric of none of these tasks; they have {', '.join(sorted(metrics))}.",
                    "metrics",
                    place,
                )
        return self

    def _check_hyperparameters(self) -> None:
        """Check that tuned and matched names are hyperparameters of every task, and that there are enough seeds."""
        wanted = [("tuning", "search", name) for name in (self.tuning.search if self.tuning else ())]
        wanted += [("match", "", self.match)] if self.match else []
        for task in self.parts().values():
            for *path, name in wanted:
                if name not in task.hyperparameters:
                    some = ", ".join(task.hyperparameters) or "none"
                    raise SpecError(
                        f"{name!r} is no hyperparameter of the task {task.name}; it has {some}.",
                        *(part for part in (*path, name) if part),
                    )
        if self.tuning and self.tuning.seeds > len(self.seeds):
            raise SpecError(
                f"tuning on {self.tuning.seeds} seeds, of {len(self.seeds)}: write fewer.", "tuning", "seeds"
            )

    def variant_names(self) -> dict[str, str]:
        """By each variant as specified, its canonical name."""
        canonical: dict[str, str] = {}
        tasks = self.parts().values()
        for place, part in enumerate(self.variants):
            for variant in part.short_names():
                try:
                    names = {task.canonical(variant) for task in tasks}
                except ValueError as problem:
                    raise SpecError(str(problem), "variants", place) from problem
                name = names.pop() if len(names) == 1 else variant
                if name in canonical.values():
                    raise SpecError(f"the variant {name!r} occurs twice; remove one of them.", "variants", place)
                canonical[variant] = name
        return canonical

    def ways(self) -> dict[str, str]:
        """Deprecated alias of `variant_names`, until 0.3."""
        warnings.warn("Study.ways() is now Study.variant_names(); 0.3 drops it.", DeprecationWarning, stacklevel=2)
        return self.variant_names()

    @classmethod
    def read(cls, path: "str | Path") -> "Study":
        """From a TOML file; errors name the line and what to write instead.

        `quick` names the built-in study.
        """
        path = QUICK if str(path) == QUICK.stem and not Path(path).exists() else Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"There is no study {path}: write one as a TOML file, or run quick, the built-in study."
            )
        if path.stat().st_size > LARGEST:
            raise ValueError(f"{path} has more than {LARGEST:,} bytes: this is no study.")
        text = path.read_text(encoding="utf-8")
        if any(line.partition("=")[0].count(".") > DEEPEST for line in text.splitlines()):
            raise ValueError(f"{path} is not a study: a name in it has more than {DEEPEST} dots.")
        try:
            plain = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise ValueError(f"{path} is not TOML: {problem}.") from problem
        except RecursionError:
            raise ValueError(f"{path} is not a study: its values are nested too deeply.") from None
        try:
            return cls.model_validate(_with_paths(plain, path.parent))._with_modules(path.parent)
        except ValidationError as problem:
            errors = [
                f"{path}, line {line_of(text, _path(one))}: {_sentence(one)}" for one in problem.errors()[:MOST_ERRORS]
            ]
            raise ValueError("\n".join(dict.fromkeys(errors))) from problem

    @classmethod
    def stored(cls, plain: dict[str, Any]) -> "Study":
        """A specification from a store; raises if it is no longer valid."""
        try:
            return cls.model_validate(plain)
        except ValidationError as problem:
            raise ValueError("\n".join(dict.fromkeys(_sentence(one) for one in problem.errors()))) from problem

    def _with_modules(self, folder: Path) -> "Study":
        """The study with `modules` resolved relative to a folder, if it has custom tasks."""
        if not any(is_custom(task.call) for task in self.parts().values()):
            return self
        return self.model_copy(update={"modules": str((folder / self.modules).resolve())})

    def run(self, out: "str | Path | None" = None, **options: Any) -> Results:
        """Run what is missing and return the results; options as in `studies.run_study.run`."""
        from .run_study import run

        return run(self, out, **options)

    def parts(self) -> dict[str, StudyTask]:
        return {task.name: task_of(task.model_dump()) for task in self.tasks}

    def jobs(self, chosen: "Mapping[tuple[str, str], TunedConfiguration] | None" = None) -> list[dict[str, Any]]:
        """Every trial except tuning, as JSON; chosen: the configuration of each task and variant."""
        jobs = self.plain_jobs()
        for job in jobs if chosen else ():
            if (choice := (chosen or {}).get((job["task"], job["variant"]))) is not None:
                job["hyper"] = choice.configuration
            if "match" in job and (base := (chosen or {}).get((job["task"], self.baseline))) is not None:
                job["match"] = job["match"] | {"hyper": base.configuration}
        return jobs

    def trial_count(self) -> int:
        """Number of trials, tuning included."""
        return len(self.plain_jobs()) + (len(tuning_jobs(self)) if self.tuning is not None else 0)

    def plain_jobs(self) -> list[dict[str, Any]]:
        """Every trial as JSON, ordered by task and seed, so that loaded data serve all variants."""
        jobs, variants = [], tuple(self.variant_names().values())
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
        if self.match:
            shared["match"] = {"by": self.match, "baseline": self.baseline}
        for name, task in self.parts().items():
            for position, seed in enumerate(self.seeds):
                extra = [TRIVIAL] if task.trivial and (task.drawn or position == 0) else []
                for variant in (*variants, *extra):
                    jobs.append(
                        shared
                        | {"task": name, "variant": variant, "seed": seed, "call": task.call, "options": task.options}
                    )
        return jobs

    def plain(self) -> dict[str, Any]:
        """As JSON, for the store: variants by their names."""
        made = self.model_dump(mode="json") | {"variants": list(self.variant_names().values())}
        made = {key: value for key, value in made.items() if key not in ("tuning", "match") or value}
        made["tasks"] = [{k: v for k, v in one.items() if k not in ("digest", "tunable") or v} for one in made["tasks"]]
        return made


def _with_paths(plain: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Resolves paths in the options of tasks relative to the folder of the study's file."""

    def absolute(name: str, value: Any) -> Any:
        own = name in PATHS and isinstance(value, str) and is_path(value)
        return str((folder / value).resolve()) if own else value

    tasks = plain.get("tasks")
    if not isinstance(tasks, list):
        return plain
    return plain | {
        "tasks": [
            one | {"options": {name: absolute(name, value) for name, value in one["options"].items()}}
            if isinstance(one, dict) and isinstance(one.get("options"), dict)
            else one
            for one in tasks
        ]
    }


def _path(problem: Any) -> tuple[str | int, ...]:
    cause = problem.get("ctx", {}).get("error")
    return cause.path if isinstance(cause, SpecError) else problem["loc"]


def _sentence(problem: Any) -> str:
    """An error of pydantic as a sentence: the path of the value, and what to write."""
    where = ".".join(str(part) for part in _path(problem))
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        parts: dict[str, type[BaseModel]] = {
            "tasks": TaskPart,
            "variants": VariantPart,
            "budget": Budget,
            "tuning": Tuning,
        }
        entries = list(parts.get(str(problem["loc"][0]), Study).model_fields)
        close = get_close_matches(str(problem["loc"][-1]), entries, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "there are " + ", ".join(entries)
        message = f"there is no such entry; {hint}"
    elif problem["type"] == "missing":
        message = f"this entry is missing: write {problem['loc'][-1]} = ..."
    elif not message.endswith((".", "?")):
        message = f"{message}; given {problem['input']!r}."
    return f"{where}: {message}" if where else message
