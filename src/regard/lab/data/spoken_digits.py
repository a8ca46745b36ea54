"""Spoken digits: clips of six speakers, and strings of digits for speech recognition."""

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Example
from regard.data.files import data_file, read_arrays
from regard.data.task import Task
from regard.data.vocabulary import Vocabulary

RATE = 8000
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_ARRAYS = ("delta", "ptr", "digit", "speaker", "speaker_names", "take")


class Clips:
    """The clips of the Free Spoken Digit Dataset: sound(i) (samples,) in [-1, 1], digit, speaker, take (clips,)."""

    def __init__(self, folder: "str | Path | None" = None):
        path = data_file("speech/fsdd.npz", folder)
        found = read_arrays(path, _ARRAYS)
        ptr, clips = found["ptr"].astype(np.int64), len(found["digit"])
        good = len(ptr) == clips + 1 and ptr[0] == 0 and (np.diff(ptr) > 0).all() and ptr[-1] == len(found["delta"])
        if not good or found["digit"].max() > 9 or found["speaker"].max() >= len(found["speaker_names"]):
            raise ValueError(f"{path} is not the spoken digits as expected: ptr, digit or speaker leave their arrays.")
        self.delta, self.ptr = found["delta"], ptr
        self.digit, self.speaker, self.take = (found[name].astype(np.int64) for name in ("digit", "speaker", "take"))
        self.names = tuple(str(name) for name in found["speaker_names"])

    def sound(self, clip: int) -> Tensor:
        wave = np.cumsum(self.delta[self.ptr[clip] : self.ptr[clip + 1]], dtype=np.int16)
        return torch.from_numpy(wave.astype(np.float32) / 32768)


def spoken_strings(
    folder: "str | Path | None" = None,
    held_out: str = "theo",
    train: int = 4000,
    val: int = 400,
    test: int = 400,
    shortest: int = 3,
    longest: int = 7,
    bands: int = 40,
    seed: int = 0,
) -> Task:
    """Recognise strings of 3 to 7 digits of an unseen speaker.

    Clips of one speaker (each with its own loudness, with short pauses between) are joined into a string. Training and
    val strings are of five speakers, test strings of the one held out; val strings are made of takes 0 to 4, training
    strings of the others. inputs (frames, bands): log-mel energies every 10 ms, each band with mean 0 and deviation 1
    over the string; gold (t, frames): 1 / frames of the clip that a word was spoken in. Read from speech/fsdd.npz.
    """
    clips = Clips(folder)
    if held_out not in clips.names:
        raise ValueError(f"spoken_strings(held_out={held_out!r}): expected one of {', '.join(clips.names)}.")
    if not 1 <= shortest <= longest:
        raise ValueError(f"spoken_strings(shortest={shortest}, longest={longest}): expected 1 <= shortest <= longest.")
    other = clips.speaker == clips.names.index(held_out)
    early, words = clips.take < 5, Vocabulary(DIGITS)
    bank = mel_bank(bands)
    parts = []
    for place, (count, chosen) in enumerate(((train, ~other & ~early), (val, ~other & early), (test, other))):
        draw = np.random.default_rng([seed, place])
        parts.append(
            [_string(clips, np.flatnonzero(chosen), draw, words, bank, shortest, longest, at) for at in range(count)]
        )
    return Task(f"spoken digits, {held_out} held out", *parts, target_words=words, names=DIGITS)


def _string(
    clips: Clips,
    chosen: np.ndarray,
    draw: np.random.Generator,
    words: Vocabulary,
    bank: Tensor,
    shortest: int,
    longest: int,
    place: int,
) -> Example:
    speaker = draw.choice(np.unique(clips.speaker[chosen]))
    mine = chosen[clips.speaker[chosen] == speaker]
    picked = draw.choice(mine, int(draw.integers(shortest, longest + 1)))
    pieces, spans, at = [], [], 0
    for clip in picked:
        pause = int(draw.integers(0, RATE // 10))
        sound = clips.sound(int(clip)) * float(draw.uniform(0.5, 1.5))
        pieces += [torch.zeros(pause), sound]
        spans.append((at + pause, at + pause + len(sound)))
        at += pause + len(sound)
    frames = log_mel(torch.cat(pieces), bank)
    frames = (frames - frames.mean(0)) / frames.std(0).clamp_min(1e-5)
    gold = torch.zeros(len(picked) + 1, len(frames))
    for row, (start, end) in enumerate(spans):
        first, last = start // HOP, min(max(start // HOP + 1, end // HOP), len(frames))
        gold[row, first:last] = 1 / (last - first)
    return Example(frames, words.encode([DIGITS[d] for d in clips.digit[picked]], end=True), gold=gold, id=place)


WINDOW, HOP, POINTS = 200, 80, 256  # samples: 25 ms every 10 ms


def log_mel(wave: Tensor, bank: Tensor) -> Tensor:
    """(frames, bands): the logarithm of the energy in each band, from a Hann window every 10 ms."""
    wave = torch.nn.functional.pad(wave, (0, max(0, POINTS - len(wave))))
    whole = torch.stft(wave, POINTS, HOP, WINDOW, torch.hann_window(WINDOW), center=False, return_complex=True)
    return (whole.abs().square().T @ bank.T + 1e-6).log()


def mel_bank(bands: int, low: float = 60.0, high: float = RATE / 2) -> Tensor:
    """(bands, POINTS // 2 + 1): triangles whose corners are evenly spaced in mel = 2595 log10(1 + hertz / 700)."""
    mel = np.linspace(2595 * math.log10(1 + low / 700), 2595 * math.log10(1 + high / 700), bands + 2)
    corner = 700 * (10 ** (mel / 2595) - 1)
    hertz = np.linspace(0, RATE / 2, POINTS // 2 + 1)
    up = (hertz - corner[:-2, None]) / (corner[1:-1] - corner[:-2])[:, None]
    down = (corner[2:, None] - hertz) / (corner[2:] - corner[1:-1])[:, None]
    return torch.from_numpy(np.maximum(0, np.minimum(up, down)).astype(np.float32))
