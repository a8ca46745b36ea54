"""Eye tracking: reading times of words, and fixations on photographs."""

import json
from pathlib import Path

import numpy as np

from regard.data.files import data_file, read_arrays, read_lines
from regard.data.readers.fixations import Scene
from regard.data.readers.reading_times import Reading


def geco(folder: "str | Path | None" = None) -> list[Reading]:
    """4,926 sentences of a novel with reading times, from eye_tracking/geco_average.jsonl.gz in REGARD_DATA.

    Cop et al. 2017; averages over readers by Hollenstein & Beinborn 2021.
    """
    found = []
    for line in read_lines(data_file("eye_tracking/geco_average.jsonl.gz", folder)):
        row = json.loads(line)
        words, share = tuple(row["sentence"].split()), np.asarray(row["relative_fixation"], dtype=np.float64)
        if len(words) != len(share):
            raise ValueError(f"geco: {len(words)} words, but {len(share)} reading times: {row['sentence']!r}.")
        found.append(Reading(words, share))
    return found


def scenes(folder: "str | Path | None" = None) -> list[Scene]:
    """311 photographs of 256 x 256 pixels with fixations of 12 observers, from images/scene_saliency_256.npz."""
    names = ("jpeg", "jpeg_ptr", "source_name", "fix_image", "fix_observer", "fix_row", "fix_col")
    read = read_arrays(data_file("images/scene_saliency_256.npz", folder), names)
    at, who = read["fix_image"], read["fix_observer"]
    places = np.stack([read["fix_row"], read["fix_col"]], 1)
    found = []
    for i, name in enumerate(read["source_name"]):
        here = at == i
        each = tuple(places[here & (who == one)] for one in np.unique(who[here]))
        jpeg = read["jpeg"][read["jpeg_ptr"][i] : read["jpeg_ptr"][i + 1]].tobytes()
        found.append(Scene(str(name), jpeg, each))
    return found
