"""What a command line names, made ready to be judged: a transformer or a trained run, and texts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.data.task import Task
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.inputs import Instance
from regard.judging.alignment.subword_alignment import pieced
from regard.judging.tests.translation import Translator
from regard.lab.data.agnews import ag_news
from regard.lab.data.movies import movies
from regard.lab.data.multi30k import TranslationTask
from regard.lab.data.sst import sst
from regard.lab.data.texts import LabelledText, LabelledTexts, spread, texts
from regard.lab.data.word_alignments import SETS, gold_alignments
from regard.lab.tasks.texts import bag_answers
from regard.models.training.node_checkpoint import is_of_nodes, open_nodes
from regard.models.training.run_checkpoint import Run, open_run, run_in
from regard.recording.pretrained import NoModel, load_model, longest

from .graph_inputs import of_graphs as graphs
from .graph_inputs import of_nodes as nodes

CLASSIFIES = "ForSequenceClassification"
# What a bag of words learns from: the same texts in the same order as `texts` has them by name.
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
    """A model by name with the texts that it is judged on, and what it is called.

    name     a folder that `regard train --out` wrote, a folder of transformers, an installed package, a hub name
    data     sst, movies, agnews, or a file.csv or file.jsonl with text, label and rationale; of a run that was trained
             here, the test part of its own data unless told
    limit    at most so many texts, spread over all of them
    removal  delete, mask; without it units are masked in transformers, and deleted for models that know no holes

    No code that comes with a model is run.
    """
    folder = run_in(Path(name)) if Path(name).is_dir() else None
    if folder is not None and is_of_nodes(folder):
        of_graph = open_nodes(folder)
        _own(of_graph.task.name, data, removal)
        return nodes(of_graph, limit, selector, device, size), f"{of_graph.kind} on {of_graph.task.name}"
    if folder is not None:
        run = open_run(folder, warn=False)
        name = run.task.name if run.task.test[0].edges is not None else run.experiment.name
        called = f"{name} ({run.attention}, seed {run.seed})"
        adapter = _trained(run, data or run.experiment.name, limit, selector, removal, device, size)
        adapter.caution, adapter.remedy = run.unfinished, run.command
        return adapter, called
    if not data:
        raise ValueError(f"{name} is no run of regard train, which has data of its own: say --data.")
    model, tokenizer = load_model(name)
    if not type(model).__name__.endswith(CLASSIFIES):
        raise NoModel(
            f"{name} is a {type(model).__name__}, which gives no classes: judged are models for sequence "
            "classification. `regard train minilm -o FOLDER` makes one of MiniLM."
        )
    whole = texts(data)
    places = spread(len(whole.texts), limit)
    classes = _class_names(model.config)
    given = _numbered(whole.at(places), classes, model.config.num_labels, name)
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
    """A text as a tokenizer cuts it; a piece is marked where its word is."""
    if not tokenizer.is_fast:
        raise NoModel(
            f"{type(tokenizer).__name__} does not tell which word a piece is from: a fast tokenizer is needed."
        )
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
    )


def _trained(
    run: Run, data: str, limit: int | None, selector: AttentionSelector | None, removal: str, device: str, size: int
) -> Adapter:
    """A run's own test part with the numbers that its words have, or other texts with the same words."""
    known, first = run.task.words, run.task.test[0]
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
            "classes to sentences (sst, agnews) or to graphs (tu, molecules, motifs, gat), or a "
            "translator on its own data (cipher, multi30k; leave --data out) or, into French, on "
            "enfr."
        )
    trivial = {}
    if data == run.experiment.name:
        some = [run.task.test[place] for place in spread(len(run.task.test), limit)]
        instances = [
            Instance(
                one.inputs,
                int(one.target),
                name=str(one.id),
                words=tuple(known.words[number] for number in one.inputs.tolist()),
            )
            for one in some
        ]
        trivial = {"bag of words": bag_answers(run.task.train, some)}
    else:
        whole = texts(data)
        given = _numbered(
            whole.at(spread(len(whole.texts), limit)), run.task.names, run.task.classes, run.experiment.name
        )
        instances = []
        for one in given.texts:
            marks = None if one.marks is None else torch.tensor(one.marks)
            tokens = known.encode([word.lower() for word in one.words])
            instances.append(Instance(tokens, one.label, None, marks, one.words, None, one.name))
    return Adapter(
        run.model.to(device),
        instances,
        selector=selector,
        removal=removal or "delete",
        size=size,
        names=run.task.names,
        trivial=trivial,
    )


def _own(name: str, data: str, removal: str) -> None:
    """Graphs are judged on the data that they were trained for, and an edge is gone when it is deleted."""
    if data not in ("", name):
        raise ValueError(f"--data {data}: a graph network is judged on its own test part, {name}; leave --data out.")
    if removal not in ("", "delete"):
        raise ValueError(f"--removal {removal}: units of a graph are edges, and they are deleted.")


def _aligned(run: Run, data: str, limit: int | None, device: str, size: int) -> Adapter:
    """Pairs whose words people aligned, cut as a translator of captions cuts them. They are from another domain."""
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
    """What a transformer calls its classes; nothing where it has only the names that everyone gets."""
    by_number = {int(number): str(name) for number, name in (getattr(config, "id2label", None) or {}).items()}
    names = tuple(by_number.get(number, str(number)) for number in range(config.num_labels))
    return () if all(name == f"LABEL_{number}" for number, name in enumerate(names)) else names


def _numbered(given: LabelledTexts, called: Sequence[str], classes: int, model: str) -> LabelledTexts:
    """Labels by the model's numbers: by name where names are the same, in the data's order where it has as many."""
    mine = {name.casefold(): number for number, name in enumerate(called)}
    if given.names and all(name.casefold() in mine for name in given.names):
        number = {place: mine[name.casefold()] for place, name in enumerate(given.names)}
    elif not given.names or len(given.names) == classes:
        number = {place: place for place in range(classes)}
    else:
        number = {}
    for one in given.texts:
        if one.label is not None and one.label not in number:
            label = given.names[one.label] if given.names else one.label
            known = ", ".join(called) or f"numbers from 0 to {classes - 1}"
            raise ValueError(f"{given.name} has the class {label!r}, which {model} does not have: expected {known}.")
    found = [replace(one, label=None if one.label is None else number[one.label]) for one in given.texts]
    return replace(given, texts=tuple(found))
