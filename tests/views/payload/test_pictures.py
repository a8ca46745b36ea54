"""Pictures that a model looked at, as a page carries them."""

import base64
import struct
import zlib

import numpy as np
import pytest
import torch

import regard
from regard.views import Picture
from regard.views.page import page_data
from regard.views.payload import pictures


def amap(m=13, n=None, heads=2):
    torch.manual_seed(0)
    q, k = torch.randn(1, heads, n or m, 4), torch.randn(1, heads, m, 4)
    return regard.attend(q, k, k).map


def decoded(raw: bytes) -> np.ndarray:
    """A PNG read by its rules: chunks with sums, rows that say how they were written."""
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(raw):
        (size,) = struct.unpack(">I", raw[at : at + 4])
        name, body = raw[at + 4 : at + 8], raw[at + 8 : at + 8 + size]
        assert struct.unpack(">I", raw[at + 8 + size : at + 12 + size])[0] == zlib.crc32(name + body)
        chunks[name], at = body, at + 12 + size
    width, height, depth, kind, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert depth == 8 and rest == [0, 0, 0]
    colours = {0: 1, 2: 3}[kind]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * colours)
    made = np.zeros((height, width, colours), np.uint8)
    for y, line in enumerate(lines):
        row = line[1:].reshape(width, colours)
        above = made[y - 1] if y else np.zeros_like(row)
        made[y] = row if line[0] == 0 else np.cumsum(row, 0, np.uint8) if line[0] == 1 else row + above
    return made


@pytest.mark.parametrize("kind", ["noise", "across", "down", "grey"])
def test_a_png_has_the_pixels(kind):
    x = np.random.default_rng(0).integers(0, 256, (7, 11, 3), np.uint8)
    x = {"noise": x, "across": np.cumsum(x, 1, np.uint8), "down": np.cumsum(x, 0, np.uint8), "grey": x[..., :1]}[kind]
    assert np.array_equal(decoded(pictures.png(x)), x)


def shown(picture, **how):
    data, texts = page_data(amap(**how), image=picture)
    return data["image"], decoded(base64.b64decode(texts[data["image"]["png"]]))


def test_pixels_of_every_kind_are_the_picture():
    x = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    for given in (x, torch.from_numpy(x), torch.from_numpy(x).permute(2, 0, 1), x / 255.0, torch.from_numpy(x / 255.0)):
        about, found = shown(Picture(given, grid=(3, 4)))
        assert np.array_equal(found, x) and about["said"] == ""
        assert (about["width"], about["height"], about["patch"]) == (8, 6, [2.0, 2.0])


def test_normalised_pixels_are_stretched_and_that_is_said_or_undone():
    x = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    mean, std = np.array([0.4, 0.5, 0.6]), np.array([0.2, 0.3, 0.25])
    given = (x / 255.0 - mean) / std
    assert np.array_equal(shown(Picture(given, grid=(3, 4), mean=mean, std=std))[1], x)
    about, found = shown(Picture(given, grid=(3, 4)))
    assert about["said"].startswith("pixel values -") and found.min() == 0 and found.max() == 255


@pytest.mark.parametrize(
    "size, m, grid, skip, patch",
    [
        ((224, 224), 197, [14, 14], 1, 16),
        ((32, 48), 24, [4, 6], 0, 8),
        ((8, 8), 65, [8, 8], 1, 1),
        ((28, 28), 21, [4, 4], 5, 7),
    ],
)
def test_the_grid_is_found_from_the_number_of_tokens(size, m, grid, skip, patch):
    data, _ = page_data(amap(m), image=torch.rand(1, 3, *size))
    image = data["image"]
    assert (image["grid"], image["skip"], image["patch"]) == (grid, skip, [patch, patch])


def test_what_patches_leave_over_is_not_guessed():
    pixels = torch.rand(3, 30, 46)  # patches of 8 and of 9 both make 3 x 5
    with pytest.raises(ValueError, match="or more than one"):
        page_data(amap(17), image=pixels)
    for side in (8, 9):
        image = page_data(amap(17), image=Picture(pixels, patch=side))[0]["image"]
        assert (image["grid"], image["skip"], image["patch"]) == ([3, 5], 2, [side, side])


def test_a_record_of_a_vision_transformer_shows_its_pixels_with_one_argument(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=48, patch_size=16
    )
    model, pixels = transformers.ViTModel(config).eval(), torch.randn(2, 3, 48, 48)
    with torch.no_grad(), regard.record(model) as rec:
        model(pixel_values=pixels)
    data, texts = page_data(rec, image=pixels, item=1)
    assert (data["image"]["grid"], data["image"]["skip"], data["image"]["patch"]) == ([3, 3], 1, [16, 16])
    found = decoded(base64.b64decode(texts[data["image"]["png"]])).astype(float)
    x = pixels[1].permute(1, 2, 0).numpy()
    assert np.abs(found - 255 * (x - x.min()) / (x.max() - x.min())).max() <= 0.51
    assert rec.save_html(tmp_path / "vit.html", image=pixels).stat().st_size > 10_000


def test_a_labelled_grid_is_taken_as_it_is():
    with regard.record() as rec:
        q = torch.randn(1, 1, 13, 4)
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    rec.label(grid=(2, 6), first=("[CLS]",))
    data, _ = page_data(rec, image=torch.rand(3, 20, 60))
    assert data["image"]["grid"] == [2, 6] and data["image"]["skip"] == 1


def test_windows_are_not_taken_for_the_picture():
    q = torch.randn(8, 2, 49, 4)  # 4 windows of each of 2 pictures
    with pytest.raises(ValueError, match="no patch size"):
        page_data(regard.attend(q, q, q).map, image=torch.rand(2, 3, 28, 28))


def test_a_large_picture_is_made_smaller_and_keeps_its_measures(monkeypatch):
    monkeypatch.setattr(pictures, "LONGEST", 10)
    x = np.random.default_rng(0).integers(0, 256, (24, 40, 3), np.uint8)
    about, found = shown(Picture(x, grid=(3, 4), boxes=[(0, 0, 40, 24)]))
    assert (about["width"], about["height"]) == (40, 24) and found.shape == (6, 10, 3)
    assert np.abs(found.astype(float) - x.reshape(6, 4, 10, 4, 3).mean((1, 3))).max() <= 0.5


def test_boxes_and_fixations_are_carried_with_names_and_times():
    about, _ = shown(
        Picture(
            np.zeros((6, 8), np.uint8),
            grid=(3, 4),
            boxes=[(0, 1, 4, 5, "</script>"), (1, 1, 2, 2)],
            fixations=[(3, 2), (4, 1, 0.25)],
        )
    )
    assert about["boxes"] == [[0, 1, 4, 5, "</script>"], [1, 1, 2, 2]]
    assert about["fixations"] == [[3, 2], [4, 1, 0.25]]


@pytest.mark.parametrize(
    "how, said",
    [
        ({"grid": (4, 4)}, "needs 16 tokens; these maps have at most 13"),
        ({"grid": (3, 4), "skip": 2}, "needs 14 tokens"),
        ({"grid": (0, 4)}, "tokens"),
        ({"grid": (3, 4), "patch": 3}, "do not fit into 6 x 8"),
        ({"grid": (3, 4), "boxes": [(4, 0, 2, 2)]}, "left < right"),
        ({"grid": (3, 4), "boxes": [(0, 0, float("nan"), 2)]}, "expected"),
        ({"grid": (3, 4), "boxes": [(0, 0, 1)]}, r"\(left, upper, right, lower\[, name\]\)"),
        ({"grid": (3, 4), "fixations": [(1, 2, 3, 4)]}, r"\(x, y\[, seconds\]\)"),
        ({"grid": (3, 4), "fixations": [(1, 2)] * 1001}, "at most 1000"),
    ],
)
def test_pictures_that_do_not_fit_are_refused(how, said):
    with pytest.raises(ValueError, match=said):
        page_data(amap(), image=Picture(np.zeros((6, 8, 3), np.uint8), **how))


@pytest.mark.parametrize("shape, kind", [((6, 8, 4), "uint8"), ((6, 8), "int64"), ((0, 8), "float64"), ((2,), "uint8")])
def test_pixels_that_are_none_are_refused(shape, kind):
    with pytest.raises(ValueError, match=r"Picture\(pixels\)"):
        page_data(amap(), image=Picture(np.zeros(shape, kind), grid=(3, 4)))
