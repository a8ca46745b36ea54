"""Word embeddings from a frozen subword transformer, for texts of any length."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def first_layers(model: Any, count: int) -> Any:
    """The first layers of a BERT-like model, with shared weights; the model itself is not changed."""
    stack = getattr(getattr(model, "encoder", None), "layer", None)
    if not isinstance(stack, nn.ModuleList):
        raise ValueError(f"{type(model).__name__} has no encoder.layer: expected a BERT-like model.")
    if not 0 <= count <= len(stack):
        raise ValueError(
            f"first_layers(count={count}): {type(model).__name__} has {len(stack)} layers, expected 0 to {len(stack)}."
        )
    made = copy.copy(model)
    made._modules = dict(model._modules)
    made.encoder = copy.copy(model.encoder)
    made.encoder._modules = dict(model.encoder._modules)
    made.encoder.layer = stack[:count]
    made.config = copy.deepcopy(model.config)
    made.config.num_hidden_layers = count
    return made


class Encoder(nn.Module):
    """Texts (words)  ->  one (n, d) a text: for each word the mean hidden state of its subwords.

    A text is encoded in consecutive windows of whole words, of at most `window` tokens with [CLS] and [SEP], so that
    nothing is truncated. A word longer than a window is cut.

    layer   the layer of the hidden states; later layers are not run
    size    windows a batch
    """

    def __init__(self, model: Any, tokenizer: Any, layer: int = 4, window: int = 128, size: int = 16):
        super().__init__()
        if window < 3:
            raise ValueError(f"Encoder(window={window}): expected 3 or more: [CLS], one token, [SEP].")
        self.model, self.tokenizer, self.layer = first_layers(model, layer).eval(), tokenizer, layer
        self.window, self.size = window, size
        self.ends = tuple(tokenizer("")["input_ids"])  # [CLS] and [SEP]
        if len(self.ends) != 2:
            raise ValueError(f"The tokenizer adds {len(self.ends)} special tokens to a text, expected [CLS] and [SEP].")
        self.dim = int(model.config.hidden_size)
        self._pieces: dict[str, list[int]] = {}

    @torch.no_grad()
    def forward(
        self, texts: Sequence[Sequence[str]], on_progress: Callable[[int], None] = lambda done: None
    ) -> list[Tensor]:
        windows = [(place, *one) for place, text in enumerate(texts) for one in self.windows(text)]
        order = sorted(range(len(windows)), key=lambda at: -len(windows[at][2]))
        device = next(self.model.parameters()).device
        found: list[Any] = [None] * len(windows)
        for start in range(0, len(order), self.size):
            some = order[start : start + self.size]
            states = self._states([windows[at][2] for at in some], device)
            for row, at in enumerate(some):
                _, words, pieces = windows[at]
                owner = torch.tensor(words, device=device)
                total = states.new_zeros(words[-1] + 1, self.dim)
                total.index_add_(0, owner, states[row, 1 : 1 + len(pieces)])
                found[at] = total / torch.bincount(owner).to(total.dtype)[:, None]
            on_progress(min(start + self.size, len(order)))
        made: list[list[Tensor]] = [[] for _ in texts]
        for at, (place, _, _) in enumerate(windows):
            made[place].append(found[at])
        empty = torch.zeros(0, self.dim, device=device)
        return [torch.cat(parts) if parts else empty for parts in made]

    def windows(self, text: Sequence[str]) -> Iterator[tuple[list[int], list[int]]]:
        """(word index of each token within the window, token ids), for each window."""
        room = self.window - 2
        words: list[int] = []
        pieces: list[int] = []
        for word in text:
            some = self.pieces(word)[:room]
            if len(pieces) + len(some) > room:
                yield words, pieces
                words, pieces = [], []
            words += [words[-1] + 1 if words else 0] * len(some)
            pieces += some
        if pieces:
            yield words, pieces

    def pieces(self, word: str) -> list[int]:
        if word not in self._pieces:
            found = self.tokenizer(word, add_special_tokens=False)["input_ids"]
            self._pieces[word] = found or [self.tokenizer.unk_token_id]
        return self._pieces[word]

    def _states(self, windows: list[list[int]], device: torch.device) -> Tensor:
        first, last = self.ends
        wide = max(map(len, windows)) + 2
        rows = [[first, *one, last] + [self.tokenizer.pad_token_id] * (wide - 2 - len(one)) for one in windows]
        real = torch.tensor([[at < len(one) + 2 for at in range(wide)] for one in windows], device=device)
        out = self.model(input_ids=torch.tensor(rows, device=device), attention_mask=real.long())
        found: Tensor = out.last_hidden_state
        return found
