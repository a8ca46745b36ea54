"""regard why, heads: why a head looks where it does, and what the heads of a model are for."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .cli_errors import check_output_file, console, fail, requires_extra, text_or_file, user_errors
from .output.progress import progress_bar

Model = Annotated[str, typer.Argument(help="A folder, an installed package (minilm, smollm2) or a hub name.")]


def why(
    model: Model,
    text: Annotated[str | None, typer.Argument(help="The input text.")] = None,
    head: Annotated[str, typer.Option(help="Layer and head, such as 3.5.")] = "0.0",
    row: Annotated[int | None, typer.Option(help="The query's place; the last token unless told.")] = None,
    key: Annotated[int | None, typer.Option(help="The key's place; the one with most weight unless told.")] = None,
    file: Annotated[Path | None, typer.Option(help="A text file instead of the text.")] = None,
    score: Annotated[bool, typer.Option("--score", help="The score itself, not over the row's other keys.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="A figure: .pdf, .svg or .png.")] = None,
) -> None:
    """Why a head looks there: its score by what wrote it.

    Each part is what one writer (embedding, position, an earlier head, an MLP)
    put into the query times what one put into the key. The strongest writer of
    the key is cut, and the weight without it is printed beside what the parts
    foretold.

    Example:  regard why smollm2 "The cat sat. The cat" --head 16.0
    """
    shown = console()
    if out is not None:
        check_output_file(out)
    with requires_extra("models"), user_errors():
        from ..core.errors import Refused
        from ..recording import why as explain
        from ..recording.pretrained import load_model, record_run

        layer, _, number = head.partition(".")
        if not (layer.isdigit() and number.isdigit()):
            fail(f"--head {head}: expected layer and head, such as 3.5.")
        loaded, tokenizer = load_model(model)
        rec, _ = record_run(loaded, tokenizer, text_or_file(text, file), model)
        site = list(rec.maps)[int(layer)] if int(layer) < len(rec.maps) else fail(f"There are {len(rec.maps)} layers.")
        amap = rec.maps[site]
        for option, given, size, what in (("head", number, amap.heads, "heads"), ("row", row, amap.n, "tokens"),
                                          ("key", key, amap.m, "tokens")):  # fmt: skip
            if given is not None and not 0 <= int(given) < size:
                fail(f"--{option} {head if option == 'head' else given}: there are {size} {what}, 0 to {size - 1}.")
        i = amap.n - 1 if row is None else row
        weights = (amap[0] if len(amap.lead) > 1 else amap)[int(number)].row(i).reshape(-1)
        j = int(weights.argmax()) if key is None else key
        try:
            found = explain(rec, site, int(number), i, j, against=None if score or len(weights) < 2 else "row")
            best = max(found.by_writer("key"), key=lambda share: share.value)
            cut = (
                None if best.writer is None else explain(rec, site, int(number), i, j).cut(best.writer, "key", run=True)
            )
        except Refused as problem:
            fail(str(problem))
    shown.print(found.table())
    if cut is not None:
        shown.print(str(cut), highlight=False)
    if out is not None:
        found.plot(save=out)
        typer.echo(out.resolve())


def heads(
    model: Model,
    corpus: Annotated[Path, typer.Option(help="A text file; paragraphs are texts.")],
    best: Annotated[int, typer.Option(min=1, help="Heads of each role.")] = 2,
    texts: Annotated[int, typer.Option(min=1, help="Paragraphs that are read.")] = 6,
    tokens: Annotated[int, typer.Option(min=8, help="Tokens of each, at most.")] = 96,
    parse: Annotated[Path | None, typer.Option(help="Parsed sentences (CoNLL-U): heads of syntax too.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """What the heads of a model are for, with evidence.

    Role and score beside chance; the writers of query and key that raise its
    scores; whether it copies what it sees into the logits; what silencing it
    does to the loss of the next token (or to the output of an encoder).
    Induction is looked for in random tokens said twice; name movers, and who
    inhibits them, in the corpus of a model that writes text.

    Example:  regard heads smollm2 --corpus wikitext.txt
    """
    shown = console()
    with requires_extra("models"), user_errors():
        from ..recording.decomposition.roles import head_roles
        from ..recording.pretrained import load_model

        loaded, tokenizer = load_model(model)
        ids = _paragraphs(tokenizer, corpus, texts, tokens)
        parsed = [] if parse is None else _parsed(tokenizer, parse, tokens)
        writes = bool(getattr(loaded, "can_generate", lambda: False)())
        separators = [x for x in (tokenizer.sep_token_id, tokenizer.eos_token_id) if isinstance(x, int)]
        separators += [
            found[-1] for mark in (".", ",") if (found := tokenizer(mark, add_special_tokens=False)["input_ids"])
        ]
        with progress_bar("heads") as report:
            found = head_roles(
                loaded,
                ids,
                vocabulary=loaded.config.vocab_size if writes else None,
                separators=separators,
                best=best,
                parsed=parsed,
                on_progress=lambda done, of: report("heads", done, of),
            )
    if json:
        import json as encoder

        typer.echo(encoder.dumps([_plain(one) for one in found], indent=2))
        return
    from rich.table import Table

    measure = "loss without" if writes else "1 - cosine without"
    table = Table(
        "head", "role", "score / chance", "key from", "query from", "copies", measure, box=None, header_style="bold"
    )
    for one in found:
        because: tuple[list[Any], list[Any]] = one.because or ([], [])
        sides = [", ".join(f"{s.name} {s.value:+.1f}" for s in side) for side in because]
        copies = "-" if one.copies is None else f"{one.copies:.2f}"
        table.add_row(
            f"{one.layer}.{one.head}",
            one.role,
            f"{one.score:.2f} / {one.chance:.2f}",
            sides[1] or one.refused,
            sides[0],
            copies,
            f"{one.silenced:+.3f}",
        )
    shown.print(table)


def _paragraphs(tokenizer: Any, corpus: Path, texts: int, tokens: int) -> list[Any]:
    import torch

    if not corpus.is_file():
        fail(f"There is no file {corpus}.")
    parts = [one.strip() for one in corpus.read_text(encoding="utf-8").split("\n") if len(one.split()) >= 20]
    if not parts:
        fail(f"{corpus} has no paragraph of 20 words or more.")
    return [torch.tensor([tokenizer(one, truncation=True, max_length=tokens)["input_ids"]]) for one in parts[:texts]]


def _parsed(tokenizer: Any, file: Path, tokens: int, most: int = 32) -> list[Any]:
    """Parsed sentences as tokens: a word is asked at its last token, and found at any of them."""
    import torch

    from ..data.readers.conllu import read_conllu
    from ..recording.decomposition.roles import ParsedText

    if not file.is_file():
        fail(f"There is no file {file}.")
    made = []
    for words, governors in read_conllu(file)[:most]:
        read = tokenizer([words], is_split_into_words=True, truncation=True, max_length=tokens)
        places: dict[int, list[int]] = {}
        for place, word in enumerate(read.word_ids(0)):
            if word is not None:
                places.setdefault(word, []).append(place)
        both = [(w, g) for w, g in enumerate(governors) if g >= 0 and w in places and g in places]
        dependents: dict[int, list[int]] = {}
        for w, g in both:
            dependents.setdefault(g, []).extend(places[w])
        up = [(places[w][-1], places[g]) for w, g in both]
        down = [(places[g][-1], found) for g, found in dependents.items()]
        made.append(ParsedText(torch.tensor(read["input_ids"]), up, down))
    return made


def _plain(one: Any) -> dict[str, Any]:
    because: tuple[list[Any], list[Any]] = one.because or ([], [])
    return {
        "site": one.site,
        "layer": one.layer,
        "head": one.head,
        "role": one.role,
        "score": one.score,
        "chance": one.chance,
        "query": [[s.name, s.value] for s in because[0]],
        "key": [[s.name, s.value] for s in because[1]],
        "copies": one.copies,
        "silenced": one.silenced,
        "refused": one.refused,
    }
