"""Arrays of an npz file: as numpy wrote them, or a sentence; never more memory than was allowed."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from regard.data.files import read_arrays


def npy(array: np.ndarray) -> bytes:
    held = io.BytesIO()
    np.save(held, array)
    return held.getvalue()


def packed(path: Path, members: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", how) as made:
        for name, raw in members.items():
            made.writestr(name, raw)
    return path


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.arange(12).reshape(3, 4).T,
        np.float32(3),
        np.zeros((0, 5)),
        np.zeros(0, "U3"),
        np.array(["a", "word", ""]),
        np.array([True, False]),
    ],
    ids=str,
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back_as_they_were(tmp_path, array, save):
    save(tmp_path / "a.npz", x=array, other=np.zeros(3))
    found = read_arrays(tmp_path / "a.npz", ("x",))["x"]
    assert found.dtype == np.asarray(array).dtype
    np.testing.assert_array_equal(found, array, strict=True)


def test_a_member_without_its_ending_does_not_pass_by_the_limit(tmp_path):
    path = packed(tmp_path / "a.npz", {"x": npy(np.zeros(100_000))})
    with pytest.raises(ValueError, match="no array 'x'"):
        read_arrays(path, ("x",), limit=1000)


def test_what_members_unpack_to_is_added_up(tmp_path):
    path = packed(tmp_path / "a.npz", {f"{name}.npy": npy(np.zeros(100)) for name in "xy"})
    assert len(read_arrays(path, ("x",), limit=1000)["x"]) == 100
    with pytest.raises(ValueError, match="more than the limit of 1000"):
        read_arrays(path, ("x", "y"), limit=1000)


def test_a_size_that_is_not_that_of_the_bytes_is_refused(tmp_path):
    raw = npy(np.zeros(100))

    for lie in (raw[:-8], raw + bytes(8), raw.replace(b"(100,)", b"(999,)"), raw.replace(b"(100,)", b"(-10,)")):
        path = packed(tmp_path / "a.npz", {"x.npy": lie})
        with pytest.raises(ValueError, match=r"which needs|not an array of numpy"):
            read_arrays(path, ("x",))


def test_a_size_in_the_directory_that_is_not_true_is_refused(tmp_path):
    """Fewer bytes declared than are there: the limit holds for what is declared, and no more is unpacked."""
    raw = npy(np.zeros(100))
    path = packed(tmp_path / "a.npz", {"x.npy": raw})
    for size in (len(raw) - 800, len(raw) + 800):
        lie = path.read_bytes().replace(len(raw).to_bytes(4, "little"), size.to_bytes(4, "little"))
        (tmp_path / "lie.npz").write_bytes(lie)
        with pytest.raises(ValueError, match=r"which needs|not a readable npz file"):
            read_arrays(tmp_path / "lie.npz", ("x",), limit=10_000)


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_that_unpack_without_a_bound_are_refused(tmp_path, how):
    path = packed(tmp_path / "a.npz", {"x.npy": npy(np.zeros(100))}, how)
    with pytest.raises(ValueError, match="does not write"):
        read_arrays(path, ("x",))


def test_random_damage_is_refused_in_a_sentence_or_harmless(tmp_path):
    path = packed(tmp_path / "a.npz", {"x.npy": npy(np.arange(50)), "y.npy": npy(np.array(["word"]))})
    raw, draw = path.read_bytes(), np.random.default_rng(0)
    for _ in range(400):
        bad = bytearray(raw[: draw.integers(1, len(raw) + 1)] if draw.random() < 0.2 else raw)
        for _ in range(draw.integers(1, 4)):
            bad[draw.integers(len(bad))] ^= 1 << draw.integers(8)
        path.write_bytes(bad)
        try:
            found = read_arrays(path, ("x", "y"), limit=10_000)
        except ValueError as told:
            assert str(path) in str(told)
        else:
            assert sum(each.nbytes for each in found.values()) <= 10_000
