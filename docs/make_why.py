"""The figures and numbers of docs/why.md: python docs/make_why.py [part ...].

Parts: smollm2 minilm rxnmapper movers speed, grammar, which writes parsed sentences for regard heads --parse, and
peers, which needs nnsight and transformer_lens beside the project.
"""

import gzip
import os
import re
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers

import regard
from regard.recording.decomposition.cut import weights_after
from regard.recording.pretrained import load_model

IMAGES = Path(__file__).parent / "images" / "see"
DRAWS = 20


def found(rec: Any, site: str, head: int, cells: list[tuple[int, int]], rivals: list[int] | None = None) -> None:
    """Over some cells: who raises the key over other keys, and what the weight is without it, and at random.

    rivals   the keys that are compared; ten of the row unless given
    """
    raised, before, said, after, random = Counter[str](), [], [], [], []
    draw = torch.Generator().manual_seed(0)
    total: Counter[str] = Counter()
    for i, j in cells:
        others = sorted(set(rivals or [int(x) for x in torch.linspace(0, i, 10).round()]) - {j})
        over = regard.why(rec, site, head, i, j, against=others)
        for share in over.by_writer("key"):
            total[share.name] += share.value / len(cells)
        best = max(over.by_writer("key"), key=lambda share: share.value)
        raised[best.name] += 1
    name = total.most_common(1)[0][0]
    for i, j in cells:
        one = regard.why(rec, site, head, i, j)
        cut = one.cut(name, "key")
        before.append(cut.before), said.append(cut.said), after.append(cut.weight)
        call = one.run.call(site)
        with torch.no_grad():
            _, (part,) = one.run.without(call, 0, head, j, "key", [cut.writer])
            noise = [torch.randn(part.shape, generator=draw, dtype=torch.float64) for _ in range(DRAWS)]
            values, _ = one.run.without(call, 0, head, j, "key", [x * part.norm() / x.norm() for x in noise])
            row = one.weights(i).double()
            random += [float(weights_after(one, call, row, i, j, "key", x - values[0])[j]) for x in values[1:]]
    mean = [sum(x) / len(x) for x in (before, said, after, random)]
    print(
        f"{site} head {head}: {len(cells)} cells; {name} {total[name]:+.2f} (first in {raised[name]} of {len(cells)});"
    )
    print("   weight, said without, without, without random:", *(f"{x:.3f}" for x in mean), flush=True)


def strong(rec: Any, site: str, head: int, count: int, pick: Any) -> list[tuple[int, int]]:
    w = rec.maps[site][0][head].weights().reshape(rec.maps[site].n, -1)
    cells = [(i, j, float(w[i, j])) for i, j in pick if w[i, j] > 0.2]
    return [(i, j) for i, j, _ in sorted(cells, key=lambda one: -one[2])[:count]]


def wikitext() -> str:
    return gzip.decompress((Path(os.environ["REGARD_DATA"]) / "text" / "wikitext2_valid.txt.gz").read_bytes()).decode()


def smollm2(name: str = "smollm2") -> None:
    model, tokenizer = load_model(name)
    ids = regard.detectors.repeated(list(range(1000, 40000)), 40, 1, seed=0)
    with torch.no_grad(), regard.record(model, tokenizer=tokenizer) as rec:
        model(ids)
    scores = regard.detectors.heads(rec, tokens=ids, detectors=["induction", "previous"])
    print("induction:", [(f"{h.layer}.{h.head}", round(h.score, 2)) for h in scores.best("induction", 6)])
    print("previous:", [(f"{h.layer}.{h.head}", round(h.score, 2)) for h in scores.best("previous", 6)])
    for one in scores.best("induction", 5):
        found(rec, one.site, one.head, strong(rec, one.site, one.head, 6, [(i, i - 39) for i in range(41, 79)]))
    cell = regard.why(rec, 18, 6, 59, 20, against="row")
    cell.plot(save=IMAGES / "why_induction.png")
    print(cell.sentence)
    print(regard.why(rec, 18, 6, 59, 20).by_token("key", "head 16.0", 3))
    text = wikitext()[:3000]
    ids = tokenizer(text, return_tensors="pt", truncation=True, max_length=300)["input_ids"]
    with torch.no_grad(), regard.record(model, tokenizer=tokenizer) as rec:
        model(ids)
    tokens = ids[0].tolist()
    again = [(i, j) for i in range(2, len(tokens)) for j in range(1, i) if tokens[j - 1] == tokens[i] and i - j > 4]
    for number in (18, 17):
        site = list(rec.maps)[number]
        head = {18: 6, 17: 3}[number]
        cells = strong(rec, site, head, 8, again)
        if cells:
            found(rec, site, head, cells)
        else:
            print(site, head, "no cell of this text above .2")


def minilm() -> None:
    model, tokenizer = load_model("minilm")
    text = "The animal did not cross the street because it was too tired, and the driver waited until it moved."
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad(), regard.record(model, tokenizer=tokenizer) as rec:
        model(**inputs)
    scores = regard.detectors.heads(rec, tokens=inputs["input_ids"])
    for detector in ("previous", "next", "duplicate", "separator"):
        for one in scores.best(detector, 1):
            print(detector, f"{one.layer}.{one.head} {one.score:.2f} by chance {one.chance:.2f}")
            w = rec.maps[one.site][0][one.head].weights().reshape(rec.maps[one.site].n, -1)
            cells = [(i, int(w[i].argmax())) for i in range(2, len(w) - 1)]
            cells = sorted(cells, key=lambda at: -float(w[at]))[:8]
            found(rec, one.site, one.head, cells)


REACTION = "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"
ATOMS = re.compile(r"\[[^\]]*[A-Za-z][^\]]*\]|[A-Z][a-z]?|[bcnops]")


def rxnmapper() -> None:
    """Its mapping head (rxnmapper 0.4: head=5, layers=[10]) on the reaction of its README."""
    folder = Path(find_spec("rxnmapper").submodule_search_locations[0]) / "models" / "transformers"
    folder = next(folder.iterdir())
    model = transformers.AlbertModel(transformers.AutoConfig.from_pretrained(folder)).eval()
    state = torch.load(folder / "pytorch_model.bin", weights_only=True, map_location="cpu")
    model.load_state_dict({key.removeprefix("albert."): value for key, value in state.items()}, strict=False)
    vocabulary = (folder / "vocab.txt").read_text().split()
    tokens = ["[CLS]", *re.findall(r"\[[^\]]+\]|Cl|Br|>>|.", REACTION), "[SEP]"]
    ids = torch.tensor([[vocabulary.index(x) for x in tokens]])
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    rec.label(tokens=tokens)
    site = list(rec.maps)[10]
    arrow = tokens.index(">>")
    w = rec.maps[site][0][5].weights().reshape(rec.maps[site].n, -1)
    atoms = [t for t, x in enumerate(tokens) if ATOMS.fullmatch(x) and 0 < t < len(tokens) - 1]
    left = [t for t in atoms if t < arrow]
    cells = [(i, left[int(w[i, left].argmax())]) for i in atoms if i > arrow]
    print("mapped:", " ".join(f"{tokens[i]}{i}-{tokens[j]}{j} {float(w[i, j]):.2f}" for i, j in cells))
    found(rec, site, 5, cells, left)
    i, j = cells[3]
    one = regard.why(rec, site, 5, i, j, against=[t for t in left if t != j])
    print(one.sentence)
    print("by layer:", *(f"{share.name} {share.value:+.2f}" for share in one.by_layer("key")))
    print("exact:", f"{one.exactness:.1e}")


FIRST = ["Mary", "John", "Tom", "Anna", "James", "Sarah", "Paul", "Alice", "David", "Laura", "Mark", "Emma"]
TEMPLATES = (
    "When{} and{} went to the store,{} gave a drink to",
    "After{} and{} had lunch at the office,{} handed the keys to",
    "Then{} and{} were working at the school, and{} decided to give a book to",
)


def movers(name: str = "smollm2", pairs: int = 20) -> None:
    """Indirect object identification (Wang et al. 2023): who looks at the name that is said next, and who keeps it."""
    model, tokenizer = load_model(name)
    draw = torch.Generator().manual_seed(0)
    texts = []
    for template in TEMPLATES:
        for _ in range(pairs):
            a, b = (FIRST[x] for x in torch.randperm(len(FIRST), generator=draw)[:2].tolist())
            first, second = (a, b) if int(torch.randint(0, 2, (), generator=draw)) else (b, a)
            texts.append((template.format(f" {first}", f" {second}", f" {b}"), f" {a}", f" {b}"))
    sums: dict[str, Any] = {}
    gaps, lengths, records = [], [], []
    for text, told, given in texts:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        asked, rival = (tokenizer(x, add_special_tokens=False)["input_ids"] for x in (told, given))
        if len(asked) != 1 or len(rival) != 1:
            raise SystemExit(f"{told!r} or {given!r} is more than one token.")
        with torch.no_grad(), regard.record(model, tokenizer=tokenizer) as rec:
            logits = model(ids).logits[0, -1]
        own = ids[0].tolist()
        lengths.append(len(own))
        key, twice = own.index(asked[0]), [t for t, x in enumerate(own) if x == rival[0]]
        gaps.append(float(logits[asked[0]] - logits[rival[0]]))
        records.append((rec, ids, key, twice, asked[0], rival[0]))
        for site, amap in rec.maps.items():
            w = amap[0].weights()[:, -1]
            here = torch.stack([w[:, key], w[:, twice[0]], w[:, twice[1]]])
            sums[site] = sums.get(site, 0) + here / len(texts)
    right = sum(gap > 0 for gap in gaps)
    chance = sum(1 / n for n in lengths) / len(lengths)
    print(f"{len(texts)} sentences: the right name above the other in {right}, by {sum(gaps) / len(gaps):+.2f} logits")
    flat = [(*s[:, h].tolist(), n, h) for n, s in enumerate(sums.values()) for h in range(s.shape[1])]
    best = sorted(flat, key=lambda one: max(one[1:3]) - one[0])[:5]
    print(f"weight at the last token; a key has {chance:.3f} by chance:")
    for name_to_say, first, second, layer, head in best:
        print(f"  {layer}.{head}: name to be said {name_to_say:.3f}, the other {first:.3f} and {second:.3f}")
    sites, some = list(sums), records[:: len(records) // 12]
    direct: Counter[tuple[int, int]] = Counter()
    for rec, ids, key, _, *both in some:
        last = regard.why(rec, len(sites) - 1, 0, ids.shape[1] - 1, key)
        for sign, token in zip((1, -1), both, strict=True):
            for writer, x in last.effect(token).direct:
                if writer.kind == "head":
                    direct[writer.layer, writer.head] += sign * x / len(some)
    ranked = direct.most_common()
    print("straight into the difference of the two logits, over all heads:")
    for (layer, head), x in [*ranked[:5], *ranked[-3:]]:
        here = sums[sites[layer]][:, head].tolist()
        print(
            f"  {layer}.{head}: {x:+.2f}; weight on the name {here[0]:.3f}, the other {here[1]:.3f} and {here[2]:.3f}"
        )
    looking = [at for at, _ in ranked if float(sums[sites[at[0]]][0, at[1]]) > 0.3]
    for layer, head in [*looking[:3], looking[-1]]:
        mover(model, some, sites, layer, head, sums)


def mover(model: Any, some: list[Any], sites: list[str], layer: int, head: int, sums: dict[str, Any]) -> None:
    """What dropping a head does to the difference of the logits, who wrote its query and key, and the strongest cut."""
    moved, queries, keys = [], Counter[str](), Counter[str]()
    for rec, ids, key, twice, asked, rival in some:
        last = ids.shape[1] - 1
        with torch.no_grad():
            plain = model(ids).logits[0, -1]
            with regard.intervene(model, {sites[layer]: regard.interventions.DropHeads(head)}):
                without = model(ids).logits[0, -1]
        moved.append(float((without - plain)[asked] - (without - plain)[rival]))
        over = regard.why(rec, layer, head, last, key, against=twice)
        for side, total in (("query", queries), ("key", keys)):
            for share in over.by_writer(side):
                total[share.name] += share.value / len(some)
    print(f"{layer}.{head}: without it the difference moves by {sum(moved) / len(moved):+.2f}; over the other name,")
    for side, total in (("query", queries), ("key", keys)):
        print(f"  {side} from", *(f"{x} {v:+.2f}" for x, v in total.most_common(4)))
    name = next((x for x, _ in queries.most_common() if x.startswith("head")), None)
    if name is None:
        return
    own = [int(x) for x in name.removeprefix("head ").split(".")]
    here = sums[sites[own[0]]][:, own[1]].tolist()
    draw = torch.Generator().manual_seed(0)
    kept = []
    for rec, ids, key, *_ in some:
        one = regard.why(rec, layer, head, ids.shape[1] - 1, key)
        cut = one.cut(name, "query", run=True)
        call, i = one.run.call(one.site), one.cell[0]
        with torch.no_grad():
            _, (part,) = one.run.without(call, 0, head, i, "query", [cut.writer])
            noise = [torch.randn(part.shape, generator=draw, dtype=torch.float64) for _ in range(DRAWS)]
            values, _ = one.run.without(call, 0, head, i, "query", [x * part.norm() / x.norm() for x in noise])
            row = one.weights(i).double()
            random = [weights_after(one, call, row, i, key, "query", x - values[0])[key] for x in values[1:]]
        kept.append((cut.before, cut.said, cut.ran, float(sum(random)) / len(random)))
    mean = [sum(x) / len(x) for x in zip(*kept, strict=True)]
    print(f"  {name} looks at the name {here[0]:.3f}, the other {here[1]:.3f} and {here[2]:.3f}; cut from the query:")
    print("  weight on the name, said without, run without, without random:", *(f"{x:.3f}" for x in mean), flush=True)


def grammar(file: str = "grammar.conllu", count: int = 32) -> None:
    """Sentences of a small grammar with their parse, as CoNLL-U: nouns with none to two adjectives, relative clauses.

    For `regard heads --parse`: the distance from a word to its governor varies, so that no fixed distance is right.
    """
    draw = torch.Generator().manual_seed(0)

    def one(*words: str) -> str:
        return words[int(torch.randint(0, len(words), (), generator=draw))]

    made = []
    for _ in range(count):
        words: list[tuple[str, str, int]] = []  # form, relation, governor (filled in later: -1)

        def noun_phrase(words: list[tuple[str, str, int]] = words) -> int:
            extra = [one("old", "small", "tired", "famous", "quiet", "green") for _ in range(int(one("0", "1", "2")))]
            head = len(words) + 1 + len(extra)
            words += [(one("the", "a"), "det", head), *((word, "amod", head) for word in extra)]
            words.append((one("doctor", "dog", "teacher", "river", "painter", "train", "city", "farmer"), "", -1))
            return head

        subject = noun_phrase()
        if one("yes", "no") == "yes":
            words.append(("that", "nsubj", len(words) + 1))
            words.append((one("likes", "sees", "follows", "knows"), "acl:relcl", subject))
            verb = len(words) - 1
            seen = noun_phrase()
            words[seen] = (words[seen][0], "obj", verb)
        verb = len(words)
        words.append((one("helps", "watches", "finds", "leaves"), "root", -1))
        words[subject] = (words[subject][0], "nsubj", verb)
        seen = noun_phrase()
        words[seen] = (words[seen][0], "obj", verb)
        words.append((".", "punct", verb))
        made += [f"{t + 1}\t{w}\t_\t_\t_\t_\t{g + 1}\t{r}\t_\t_" for t, (w, r, g) in enumerate(words)] + [""]
    Path(file).write_text("\n".join(made) + "\n", encoding="utf-8")
    print(f"{count} sentences in {file}")


def speed(name: str = "smollm2") -> None:
    model, tokenizer = load_model(name)
    text = wikitext()[:8000]
    ids = tokenizer(text, return_tensors="pt", truncation=True, max_length=1000)["input_ids"]
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    for layer, head, i, j in (
        (18, 6, 900, 500),
        (18, 6, 901, 777),
        (29, 0, 999, 2),
        (10, 3, 500, 400),
        (29, 8, 999, 998),
    ):
        others = list(range(0, i, i // 15))[:16]
        start, used = time.perf_counter(), time.process_time()
        regard.why(rec, layer, head, i, j, against=others)
        spent = time.perf_counter() - start, time.process_time() - used
        print(f"{layer}.{head} ({i}, {j}): {spent[0]:.2f} s, {spent[1]:.2f} s of a core")
    start, used = time.perf_counter(), time.process_time()
    whole = regard.why(rec, 18, 6)
    print(f"the map of 18.6: {time.perf_counter() - start:.2f} s, {time.process_time() - used:.2f} s of a core")
    print(whole.sentence)
    start, used = time.perf_counter(), time.process_time()
    for part in whole.largest(5):
        print(f"  {part.query.label} at {part.i} with {part.key.label} at {part.j}: {part.value:+.1f}")
    print(f"its largest parts: {time.perf_counter() - start:.2f} s, {time.process_time() - used:.2f} s of a core")


def timed(name: str, run: Any, right: Any, repeats: int = 3) -> None:
    """Median of a few runs, and how far the logits are from ours."""
    spent = []
    for _ in range(repeats + 1):
        start, used = time.perf_counter(), time.process_time()
        with torch.no_grad():
            out = run()
        spent.append((time.process_time() - used, time.perf_counter() - start))
    cpu, wall = sorted(spent[1:])[repeats // 2]
    print(
        f"{name}: {cpu:.2f} s of a core ({wall:.2f} s), logits within {float((out - right).abs().max()):.1e}",
        flush=True,
    )


def peers(name: str = "smollm2", tokens: int = 64, layer: int = 18, head: int = 6, place: int = 50) -> None:
    """The same patch, a vector added to one head's query at one token, by a hook, by Regard and by other tools."""
    model, tokenizer = load_model(name)
    ids = torch.randint(1000, 40000, (1, tokens), generator=torch.Generator().manual_seed(0))
    width = model.config.hidden_size // model.config.num_attention_heads
    vector = torch.randn(width, generator=torch.Generator().manual_seed(1))
    cos, sin = (x[0, 0] for x in model.model.rotary_emb(torch.zeros(1, 1, width), torch.tensor([[place]])))
    half = width // 2
    before = vector * cos - torch.cat([-vector[half:], vector[:half]]) * sin  # as it stands before the rotation
    mine = slice(head * width, (head + 1) * width)
    site, query = f"model.layers.{layer}.self_attn", model.model.layers[layer].self_attn.q_proj

    def regard_run() -> Any:
        shift = regard.interventions.Shift(query={(0, head, place): vector})
        with regard.intervene(model, {site: shift}):
            return model(ids).logits[0, -1]

    def hook_run() -> Any:
        def add(module: Any, args: Any, out: Any) -> Any:
            out = out.clone()
            out[0, place, mine] += before
            return out

        handle = query.register_forward_hook(add)
        try:
            return model(ids).logits[0, -1]
        finally:
            handle.remove()

    with torch.no_grad():
        right = regard_run()
    timed("no patch", lambda: model(ids).logits[0, -1], right)
    timed("a hook of torch", hook_run, right)
    timed("regard", regard_run, right)
    if find_spec("nnsight"):
        import nnsight

        wrapped = nnsight.NNsight(model)

        def nnsight_run() -> Any:
            with wrapped.trace(ids):
                wrapped.model.layers[layer].self_attn.q_proj.output[0, place, mine] += before
                out = wrapped.output.logits[0, -1].save()
            return out  # noqa: RET504 - the block above is traced

        timed(f"nnsight {nnsight.__version__}", nnsight_run, right)
    if find_spec("transformer_lens"):
        from transformer_lens.model_bridge import TransformerBridge

        bridge = TransformerBridge.boot_transformers("HuggingFaceTB/SmolLM2-135M", hf_model=model, tokenizer=tokenizer)

        def lens_run() -> Any:
            def add(x: Any, hook: Any) -> Any:
                if x.ndim == 4:
                    x[0, place, head] += before
                else:
                    x[0, place, mine] += before
                return x

            return bridge.run_with_hooks(ids, fwd_hooks=[(f"blocks.{layer}.attn.hook_q", add)])[0, -1]

        timed("transformer_lens, no patch", lambda: bridge(ids)[0, -1], right)
        timed("transformer_lens", lens_run, right)


if __name__ == "__main__":
    parts = {f.__name__: f for f in (smollm2, minilm, rxnmapper, movers, grammar, speed, peers)}
    for part in sys.argv[1:] or [name for name in parts if name not in ("peers", "grammar")]:
        which, _, where = part.partition("=")
        parts[which](*([where] if where else []))
