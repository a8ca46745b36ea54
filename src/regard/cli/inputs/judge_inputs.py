"""Adapters for judging from command-line names: a transformer or a trained run, and texts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.data.batch import Example
from regard.data.readers.labelled_text import LabelledText, LabelledTexts, spread
from regard.data.readers.user_file import is_path, same_file
from regard.data.task import Task
from regard.data.text_task import TextTask
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.inputs import Instance
from regard.judging.alignment.subword_alignment import pieced
from regard.judging.tests.fixations import Viewer
from regard.judging.tests.translation import Translator
from regard.lab.data.agnews import ag_news
from regard.lab.data.movies import movies
from regard.lab.data.multi30k import TranslationTask
from regard.lab.data.sst import sst
from regard.lab.data.texts import texts
from regard.lab.data.word_alignments import SETS, gold_alignments
from regard.lab.tasks.images.photographs import PhotographTask
from regard.lab.tasks.texts.text_classification import bag_answers
from regard.models.training.hetero_checkpoint import is_typed, open_typed
from regard.models.training.node_checkpoint import is_of_nodes, open_nodes
from regard.models.training.run_checkpoint import Run, open_run, run_in
from regard.recording.pretrained import NoModel, load_model, longest

from .graph_inputs import of_graphs as graphs
from .graph_inputs import of_nodes as nodes
from .graph_inputs import of_typed as typed

CLASSIFIES = "ForSequenceClassification"
# Training data of the bag-of-words baseline: the same texts in the same order as `texts`.
LEARNED: dict[str, Callable[[], Task]] = {"sst": lambda: sst(phrases=False), "agnews": ag_news, "movies": movies}


def ready(
    name: str,
    data: str = "",
    *,
    limit: int | None = None,
    selector: AttentionSelector | None = None,
    removal: str = "",
    device: str = "cpu",
    size: int = 64,
) -> tuple[Adapter, str]:
    """A model by name with the texts to judge it on, and its display name.

    name     a folder that `regard train --out` wrote, a folder of transformers, an installed package, a hub name
    data     sst, movies, agnews, or the path of texts (`read_texts`); for a trained run by default the test part of its
             own data. If these were moved, their new path
    limit    maximum number of texts, evenly spaced
    removal  delete, mask; by default units are masked in transformers, and deleted in other models

    Code from model repositories is never run.
    """
    folder = run_in(Path(name)) if Path(name).is_dir() else None
    if folder is not None and is_typed(folder):
        typed_run = open_typed(folder, data if is_path(data) else "")
        _own(typed_run.task.name, "" if same_file(data, typed_run.source) else data, removal)
        called = f"{typed_run.kind} on {typed_run.task.name}"
        return typed(typed_run, limit, selector, device, size), called
    if folder is not None and is_of_nodes(folder):
        of_graph = open_nodes(folder, data if is_path(data) else "")
        _own(of_graph.task.name, "" if same_file(data, of_graph.task.source) else data, removal)
        return nodes(of_graph, limit, selector, device, size), f"{of_graph.kind} on {of_graph.task.name}"
    if folder is not None:
        run = open_run(folder, warn=False, data=data if is_path(data) else "")
        if run.experiment.source and same_file(data, run.experiment.source):
            data = ""
        of_graphs = run.task.test[0].edges is not None
        name = run.task.name if of_graphs else Path(run.experiment.source).name or run.experiment.name
        called = f"{name} ({run.attention}, seed {run.seed})"
        adapter = _trained(run, data or run.experiment.name, limit, selector, removal, device, size)
        adapter.caution, adapter.remedy = run.unfinished, run.command
        return adapter, called
    if not data:
        raise ValueError(f"{name} is not a run of regard train with its own data: give --data.")
    model, tokenizer = load_model(name)
    if not type(model).__name__.endswith(CLASSIFIES):
        raise NoModel(
            f"{name} is a {type(model).__name__}, not a model for sequence classification. "
            "`regard train minilm -o FOLDER` makes one of MiniLM."
        )
    whole = texts(data)
    places = spread(len(whole.texts), limit)
    classes = _class_names(model.config)
    given = _numbered(whole.at(places), classes, model.config.num_labels, name, is_path(data))
    instances = [pieces(one, tokenizer, longest(model, tokenizer)) for one in given.texts]
    trivial = {}
    if data in LEARNED:
        task = LEARNED[data]()
        trivial = {"bag of words": bag_answers(task.train, [task.test[place] for place in places])}
    made = Adapter(
        model.to(device),
        instances,
        selector=selector,
        removal=removal or "mask",
        size=size,
        names=classes or given.names,
        trivial=trivial,
    )
    return made, Path(name).name or name


def pieces(one: LabelledText, tokenizer: Any, most: int) -> Instance:
    """A text as word pieces; a piece inherits the rationale mark of its word."""
    if not tokenizer.is_fast:
        raise NoModel(f"{type(tokenizer).__name__} does not map pieces to words: a fast tokenizer is needed.")
    starts = [0]
    for word in one.words[:-1]:
        starts.append(starts[-1] + len(word) + 1)
    found = tokenizer(
        " ".join(one.words),
        truncation=True,
        max_length=most,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    special = torch.tensor(found["special_tokens_mask"], dtype=torch.bool)
    at = torch.tensor([end - 1 for _, end in found["offset_mapping"]])
    places = (torch.searchsorted(torch.tensor(starts), at, right=True) - 1).masked_fill(special, -1)
    marks = None
    if one.marks is not None:
        marks = torch.tensor([*one.marks, False])[places] & ~special
    return Instance(
        torch.tensor(found["input_ids"]),
        one.label,
        special,
        marks,
        tuple(tokenizer.convert_ids_to_tokens(found["input_ids"])),
        places,
        one.name,
        len(one.words),
        _times(one),
    )


def _trained(
    run: Run, data: str, limit: int | None, selector: AttentionSelector | None, removal: str, device: str, size: int
) -> Adapter:
    """A run's own test part, or other texts encoded with its vocabulary."""
    known, first = run.task.words, run.task.test[0]
    if isinstance(run.task, PhotographTask):
        _own(run.experiment.name, data, removal, "The attention of photographs")
        chosen = spread(len(run.task.test), limit)
        seen = [run.task.test[place] for place in chosen]
        looked = [run.task.fixations[place] for place in chosen]
        return Viewer(run.model.to(device), seen, looked, size=size)
    if known is not None and run.task.target_words is not None and data == run.experiment.name:
        some = [run.task.test[place] for place in spread(len(run.task.test), limit)]
        return Translator(run.model.to(device), some, words=known, target_words=run.task.target_words, size=size)
    if isinstance(run.task, TranslationTask) and data in SETS:
        return _aligned(run, data, limit, device, size)
    if first.edges is not None and run.task.classes:
        _own(run.experiment.name, data, removal)
        return graphs(run, limit, selector, device, size)
    if known is None or first.inputs.ndim != 1 or first.target.ndim != 0:
        raise ValueError(
            f"A run of {run.experiment.name} on {data} is not judged this way: expected one that gives "
            "classes to sentences (sst, agnews) or to graphs (tu, molecules, motifs, gat), "
            "attention to photographs (fixations), or a "
            "translator on its own data (cipher, multi30k; leave --data out) or, into French, on "
            "enfr."
        )
    trivial = {}
    if data == run.experiment.name:
        some = [run.task.test[place] for place in spread(len(run.task.test), limit)]
        instances = [_own_instance(one, run.task) for one in some]
        trivial = {"bag of words": bag_answers(run.task.train, some)}
    else:
        others = texts(data)
        given = _numbered(
            others.at(spread(len(others.texts), limit)),
            run.task.names,
            run.task.classes,
            run.experiment.name,
            is_path(data),
        )
        instances = []
        for text in given.texts:
            whole = (text, tuple(range(len(text.words))))
            one, places = text.in_tokens() if isinstance(run.task, TextTask) else whole
            marks = None if one.marks is None else torch.tensor(one.marks)
            tokens = known.encode([word.lower() for word in one.words])
            where, times = torch.tensor(places), _times(one)
            instances.append(Instance(tokens, one.label, None, marks, one.words, where, one.name, reading=times))
    return Adapter(
        run.model.to(device),
        instances,
        selector=selector,
        removal=removal or "delete",
        size=size,
        names=run.task.names,
        trivial=trivial,
    )


def _times(one: LabelledText) -> torch.Tensor | None:
    return None if one.reading is None else torch.tensor(one.reading, dtype=torch.float64)


def _own_instance(one: Example, task: Task) -> Instance:
    """A text of the run's own test part, with original words and rationales if the task has them."""
    if isinstance(task, TextTask):
        text = task.texts[one.id]
        marks = None if text.marks is None else torch.tensor(text.marks)
        places = torch.tensor(task.places[one.id])
        return Instance(one.inputs, int(one.target), None, marks, text.words, places, text.name)
    assert task.words is not None
    words = tuple(task.words.words[number] for number in one.inputs.tolist())
    return Instance(one.inputs, int(one.target), name=str(one.id), words=words)


def _own(name: str, data: str, removal: str, what: str = "A graph network") -> None:
    """Graph networks are judged on their own data, and removal of an edge is deletion."""
    if data not in ("", name):
        raise ValueError(
            f"--data {data}: {what[0].lower()}{what[1:]} is judged on its own test part, {name}; leave out --data."
        )
    if removal not in ("", "delete"):
        raise ValueError(f"--removal {removal}: units of a graph are edges, which can only be deleted.")


def _aligned(run: Run, data: str, limit: int | None, device: str, size: int) -> Adapter:
    """Pairs with human word alignments, tokenised as for the caption translator. They are from another domain."""
    spoken = f"en{run.experiment.options.get('to', 'de')}"
    if data != spoken:
        raise ValueError(
            f"data={data!r}: this run translates {spoken[:2]}-{spoken[2:]}; expected one trained by "
            "`regard train multi30k --to fr` for enfr."
        )
    assert isinstance(run.task, TranslationTask) and run.task.words is not None and run.task.target_words is not None
    gold = gold_alignments(data)
    made = pieced([gold[place] for place in spread(len(gold), limit)], run.task)
    return Translator(
        run.model.to(device),
        [one.example for one in made],
        words=run.task.words,
        target_words=run.task.target_words,
        pieced=made,
        size=size,
    )


def _class_names(config: Any) -> tuple[str, ...]:
    """Class names of a transformer; () if it has only the default names."""
    by_number = {int(number): str(name) for number, name in (getattr(config, "id2label", None) or {}).items()}
    names = tuple(by_number.get(number, str(number)) for number in range(config.num_labels))
    return () if all(name == f"LABEL_{number}" for number, name in enumerate(names)) else names


def _numbered(given: LabelledTexts, called: Sequence[str], classes: int, model: str, own: bool) -> LabelledTexts:
    """Maps labels to the model's class ids: by name if names agree; in the data's order if the model has no names, or
    for a built-in data set with equally many classes (negative, positive). In a user's file names must agree."""
    mine = {name.casefold(): number for number, name in enumerate(called)}
    if given.names and all(name.casefold() in mine for name in given.names):
        number = {place: mine[name.casefold()] for place, name in enumerate(given.names)}
    elif not given.names and mine and {str(one.label) for one in given.texts if one.label is not None} <= mine.keys():
        number = {label: mine[str(label)] for label in {one.label for one in given.texts} if label is not None}
    elif not given.names or (len(given.names) == classes and not (own and called)):
        number = {place: place for place in range(classes)}
    else:
        number = {place: mine[name.casefold()] for place, name in enumerate(given.names) if name.casefold() in mine}
    for one in given.texts:
        if one.label is not None and one.label not in number:
            label = given.names[one.label] if given.names else one.label
            known = ", ".join(called) or f"numbers from 0 to {classes - 1}"
            raise ValueError(f"{given.name} has the class {label!r}, which {model} does not have: expected {known}.")
    found = [replace(one, label=None if one.label is None else number[one.label]) for one in given.texts]
    return replace(given, texts=tuple(found))
