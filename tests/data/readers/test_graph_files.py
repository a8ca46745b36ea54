"""Graphs of one's own: PyG objects and files are the same tasks, and what is said about a file that is wrong."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.data import read_fixations, read_graph, read_graphs, read_hetero_graph, save_graph
from regard.data.readers.graph_set import folds

N = 8


def arrays(**other):
    found = {
        "x": np.eye(N, 3),
        "edge_index": np.array([[0, 1, 2, 3], [1, 0, 3, 2]]),
        "y": np.arange(N) % 2,
        "train_mask": np.arange(N) < 4,
        "val_mask": (np.arange(N) >= 4) & (np.arange(N) < 6),
        "test_mask": np.arange(N) >= 6,
    } | other
    return {name: x for name, x in found.items() if x is not None}


def saved(tmp_path, found, name="g.npz"):
    np.savez(tmp_path / name, **found)
    return tmp_path / name


def test_a_file_and_a_data_object_are_the_same_task(tmp_path):
    Data = pytest.importorskip("torch_geometric.data").Data
    tensors = {name: torch.as_tensor(x) for name, x in arrays().items()}
    tensors["x"] = tensors["x"].float()
    data = Data(**tensors)
    file, written, given = (
        read_graph(source) for source in (saved(tmp_path, arrays()), save_graph(data, tmp_path / "d.npz"), data)
    )
    for task in (written, given):
        assert_close(task.x, file.x)
        for name in ("y", "edge_index", "train", "val", "test"):
            assert torch.equal(getattr(task, name), getattr(file, name))
    assert file.source == str(tmp_path / "g.npz") and len(file.digest) == 64 and not given.source


def test_without_masks_parts_are_drawn_of_the_nodes_whose_class_is_there(tmp_path):
    y = np.where(np.arange(100) < 40, np.arange(100) % 2, -1)
    bare = {"x": np.ones((100, 2)), "edge_index": np.zeros((2, 0), int), "y": y}
    one, again, other = (read_graph(saved(tmp_path, bare), split) for split in (3, 3, 4))
    assert torch.equal(one.train, again.train) and not torch.equal(one.train, other.train)
    assert [int(part.sum()) for part in (one.train, one.val, one.test)] == [28, 6, 6]
    assert not (one.train | one.val | one.test)[40:].any()


WRONG = {
    "no y": ({"y": None}, "has no array 'y'; it has edge_index.* Expected x"),
    "no x": ({"x": None}, "has no array 'x_data'.*x may be sparse"),
    "edges of float": ({"edge_index": np.zeros((2, 3))}, r"edge_index\[0\] is float64; write .*astype"),
    "edges turned": ({"edge_index": np.zeros((5, 2), int)}, r"it is \(5, 2\); write edge_index\.T"),
    "id too large": ({"edge_index": np.array([[0, 1], [8, 0]])}, r"nodes from 0 to 7 \(edge_index\[1\]\[0\] is 8\)"),
    "id below 0": ({"edge_index": np.array([[0, -1], [1, 0]])}, r"edge_index\[0\]\[1\] is -1"),
    "NaN": ({"x": np.where(np.eye(N, 3) > 0, np.nan, 0)}, r"x is finite \(x\[0, 0\] is nan\)"),
    "infinity": ({"x": np.full((N, 1), np.inf)}, r"x\[0, 0\] is inf"),
    "x too short": ({"x": np.ones((3, 3))}, r"x has shape \(8, features\) \(it is \(3, 3\), and y is \(8,\)\)"),
    "y too short": ({"y": np.array([0, 1, 0])}, r"x has shape \(3, features\) \(it is \(8, 3\), and y is \(3,\)\)"),
    "x flat": ({"x": np.ones(N)}, r"it is \(8,\)"),
    "x of words": ({"x": np.full((N, 1), "a")}, "x holds numbers"),
    "y two-dimensional": ({"y": np.zeros((N, 1), int)}, r"y is \(8, 1\); write y\[:, 0\]"),
    "y of float": ({"y": np.zeros(N)}, r"y is float64; write y\.astype"),
    "y below -1": ({"y": np.array([0, 1, -3, 0, 0, 1, 0, 1])}, r"y\[2\] is -3"),
    "nobody has a class": ({"y": np.full(N, -1)}, "no node has a class"),
    "mask without class": ({"y": np.array([-1, 1, 0, 1, 0, 1, 0, 1])}, r"y\[0\] is -1"),
    "masks overlap": ({"val_mask": np.ones(N, bool)}, "masks do not overlap"),
    "mask empty": ({"val_mask": np.zeros(N, bool)}, "val_mask is empty"),
    "mask short": ({"val_mask": np.ones(3, bool)}, r"val_mask is \(3,\)"),
    "mask of ten splits": ({"val_mask": np.ones((N, 10), bool)}, r"choose one split: mask\[:, 0\]"),
    "one mask alone": ({"val_mask": None, "test_mask": None}, "has no array 'val_mask'.*all three masks or none"),
    "objects": ({"y": np.array([0, None] * 4, object)}, "allow_pickle=False"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_graph_is_refused_with_what_is_wrong_and_where(tmp_path, wrong):
    other, sentence = WRONG[wrong]
    with pytest.raises(ValueError, match=sentence):
        read_graph(saved(tmp_path, arrays(**other)))


def test_a_pickle_is_never_opened_and_the_line_that_converts_it_works(tmp_path, monkeypatch):
    Data = pytest.importorskip("torch_geometric.data").Data
    path = tmp_path / "mine.pt"
    tensors = {name: torch.as_tensor(x) for name, x in arrays().items()}
    torch.save(Data(**tensors), path)
    with pytest.raises(ValueError, match="pickles are refused") as refused:
        read_graph(path)
    line = str(refused.value).split('python -c "')[1].rstrip('"')
    monkeypatch.chdir(tmp_path)
    exec(line, {})
    assert read_graph("mine.npz").nodes == N


@pytest.mark.parametrize(("source", "sentence"), [("a.csv", "ends in .npz"), ("a.npz", "is not a readable npz file")])
def test_a_file_of_another_kind_is_refused(tmp_path, source, sentence):
    (tmp_path / source).write_text("text,label\n")
    with pytest.raises(ValueError, match=sentence):
        read_graph(tmp_path / source)
    with pytest.raises(TypeError, match=r"expected the path of an \.npz file or a torch_geometric Data, got list"):
        read_graph([1])


def several(**other):
    found = {
        "x": np.eye(12, 2),
        "ptr": np.array([0, 3, 6, 9, 12]),
        "edge_index": np.array([[0, 1, 3, 6, 9], [1, 2, 4, 8, 11]]),
        "y": np.array([0, 1, 0, 1]),
        "node_mask": np.arange(12) % 3 == 0,
    }
    return found | other


def test_graphs_of_a_file_and_of_a_list_are_the_same(tmp_path):
    Data = pytest.importorskip("torch_geometric.data").Data
    found = several()
    task = read_graphs(saved(tmp_path, found))
    some = [
        Data(
            x=torch.tensor(found["x"][3 * i : 3 * i + 3]),
            edge_index=torch.tensor(found["edge_index"][:, found["edge_index"][0] // 3 == i] - 3 * i),
            y=torch.tensor([found["y"][i]]),
            node_mask=torch.tensor(found["node_mask"][3 * i : 3 * i + 3]),
        )
        for i in range(4)
    ]
    for other in (read_graphs(some), read_graphs(save_graph(some, tmp_path / "s.npz"))):
        for part in ("train", "val", "test"):
            for one, two in zip(getattr(task, part), getattr(other, part), strict=True):
                assert one.id == two.id and torch.equal(one.edges, two.edges) and torch.equal(one.gold, two.gold)
                assert_close(one.inputs, two.inputs)
    assert task.train[0].gold.shape == (3, 1) and task.classes == 2


def test_folds_have_each_class_alike_and_are_disjoint():
    y = np.repeat([0, 1], [60, 40])
    of = folds(y)
    assert [np.bincount(y[of == fold]).tolist() for fold in range(10)] == [[6, 4]] * 10


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"ptr": np.array([0, 3, 6, 9, 11])}, "ptr is non-decreasing from 0 to the number of nodes"),
        ({"ptr": np.array([0, 3, 3, 9, 12])}, "ptr is non-decreasing"),
        ({"edge_index": np.array([[0], [4]])}, r"edge_index\[:, 0\] joins node 0 of graph 0 and node 4 of graph 1"),
        ({"edge_index": np.zeros((2, 0), int)}, "no graph has an edge"),
        ({"edge_index": np.array([[0], [12]])}, r"edge_index\[1\]\[0\] is 12"),
        ({"y": np.array([0, 1, 0])}, "ptr is non-decreasing"),
        ({"y": np.array([0.0, 1, 0, 1])}, "y is float64"),
        ({"node_mask": np.ones(3)}, r"node_mask is \(3,\)"),
        ({"train_mask": np.ones(4, bool)}, "has no array 'val_mask'"),
    ],
)
def test_wrong_graphs_are_refused(tmp_path, other, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_graphs(saved(tmp_path, several(**other)))


def tu_folder(tmp_path, **other):
    files = {
        "A": "1, 2\n2, 1\n3, 4\n5, 6\n",
        "graph_indicator": "1\n1\n2\n2\n3\n3\n",
        "graph_labels": "-1\n1\n-1\n",
        "node_labels": "7\n8\n7\n7\n8\n8\n",
        "node_attributes": "0.5\n1\n0\n0\n1\n2\n",
    }
    for name, text in (files | other).items():
        if text is not None:
            (tmp_path / f"MINE_{name}.txt").write_text(text)
    return tmp_path


def test_a_tu_folder_is_read_with_labels_of_any_numbers(tmp_path):
    task = read_graphs(tu_folder(tmp_path))
    every = sorted([*task.train, *task.val, *task.test], key=lambda one: one.id)
    assert [int(one.target) for one in every] == [0, 1, 0]
    assert every[0].inputs.tolist() == [[1, 0, 0.5], [0, 1, 1]] and every[2].edges.tolist() == [[0], [1]]


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"A": "1, 2\n2, 3\n"}, "MINE_A.txt, line 2: this edge joins nodes of different graphs"),
        ({"A": "1, 2\n1, 7\n"}, "line 2: there are nodes from 1 to 6"),
        ({"A": "1 2\n"}, "line 1: '1 2': expected two whole numbers, such as 1, 2"),
        ({"graph_indicator": "1\n1\n3\n3\n3\n3\n"}, "graph_indicator.txt, line 3: graphs are counted 1, 2, 3"),
        ({"graph_labels": "1\n"}, "1 labels, and MINE_graph_indicator.txt has 3 graphs"),
        ({"graph_labels": None}, "MINE_graph_labels.txt: this file of the TU format is missing"),
        ({"node_labels": "1\n"}, "1 line, and there are 6 nodes"),
        ({"node_attributes": "1\nnan\n1\n1\n1\n1\n"}, "line 2: 'nan': expected 1 finite numbers"),
    ],
)
def test_a_wrong_tu_folder_is_refused_with_file_and_line(tmp_path, other, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_graphs(tu_folder(tmp_path, **other))


def typed(**other):
    found = {
        "x/paper": np.eye(6, 2),
        "num_nodes/author": np.array(3),
        "num_nodes/field": np.array(2),
        "edge_index/paper/by/author": np.array([[0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2]]),
        "edge_index/author/in/field": np.array([[0, 1, 2], [0, 0, 1]]),
        "y/paper": np.array([0, 0, 0, 0, 1, 1]),
    } | other
    return {name: x for name, x in found.items() if x is not None}


LONG = "paper/by/author/in/field/rev_in/author/rev_by/paper"


def test_a_meta_path_of_any_length_is_the_product_of_its_steps(tmp_path):
    words = np.array(["paper", "by", "author", "rev_by", "paper"])
    task = read_hetero_graph(saved(tmp_path, typed(**{"metapath/PAP": words})), metapaths=[LONG])
    dense = {}
    for kind, edges in task.edge_index.items():
        dense[kind] = torch.zeros(task.x[kind[0]].shape[0], task.x[kind[2]].shape[0])
        dense[kind][edges[0], edges[1]] = 1
    for walk in task.paths.values():
        product = torch.eye(6)
        for kind in walk:
            product = product @ dense[kind]
        found = torch.zeros(6, 6)
        pairs = task.along(walk)
        found[pairs[0], pairs[1]] += 1
        assert torch.equal(found, (product > 0).float()) and pairs.shape[1] == int(found.sum())
    assert list(task.paths) == ["PAP", LONG]


def test_a_relation_without_a_way_back_gets_one(tmp_path):
    task = read_hetero_graph(saved(tmp_path, typed()))
    assert torch.equal(task.edge_index["author", "rev_by", "paper"], task.edge_index["paper", "by", "author"].flip(0))
    assert len(task.edge_index) == 4 and torch.equal(task.x["author"].to_dense(), torch.eye(3))


def test_a_hetero_data_object_and_its_file_are_the_same_task(tmp_path):
    HeteroData = pytest.importorskip("torch_geometric.data").HeteroData
    data, found = HeteroData(), typed()
    data["paper"].x, data["paper"].y = torch.tensor(found["x/paper"]), torch.tensor(found["y/paper"])
    data["author"].num_nodes, data["field"].num_nodes = 3, 2
    data["paper", "by", "author"].edge_index = torch.tensor(found["edge_index/paper/by/author"])
    data["author", "in", "field"].edge_index = torch.tensor(found["edge_index/author/in/field"])
    tasks = [read_hetero_graph(one) for one in (data, save_graph(data, tmp_path / "h.npz"), saved(tmp_path, found))]
    for task in tasks[:2]:
        assert {kind: x.shape for kind, x in task.x.items()} == {kind: x.shape for kind, x in tasks[2].x.items()}
        assert all(torch.equal(index, tasks[2].edge_index[kind]) for kind, index in task.edge_index.items())
        assert torch.equal(task.train, tasks[2].train)


@pytest.mark.parametrize(
    ("other", "options", "sentence"),
    [
        ({"edge_index/paper/by": np.zeros((2, 0), int)}, {}, "is not edge_index/SOURCE/RELATION/TARGET"),
        ({"num_nodes/author": None}, {}, "has the node type 'author', but no x/author or num_nodes/author"),
        ({"edge_index/paper/by/author": np.array([[6], [0]])}, {}, r"edge_index/paper/by/author\[0\]\[0\] is 6"),
        ({"edge_index/paper/by/author": np.array([[0.0], [0.0]])}, {}, "float64"),
        ({"y/paper": None}, {}, "types with y: none"),
        ({"y/author": np.zeros(3, int)}, {}, "must name the node type with classes.*paper, author"),
        ({}, {"target": "field"}, "target='field'"),
        ({}, {"metapaths": ["paper/author/paper/by"]}, "has 4 words, expected alternating types and relations"),
        ({}, {"metapaths": ["paper/cites/paper"]}, "uses paper/cites/paper, which does not exist: paper/by/author"),
        ({}, {"metapaths": ["paper/by/author"]}, "leads from paper to author, expected paper"),
        ({"x/paper": np.full((6, 2), np.nan)}, {}, "x/paper is finite"),
        ({"y/paper": np.zeros(4, int)}, {}, "y/paper is a class a node"),
    ],
)
def test_a_wrong_graph_of_types_is_refused(tmp_path, other, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_hetero_graph(saved(tmp_path, typed(**other)), **options)


def photographs(tmp_path, table="image,x,y,observer\na.png,3,15,x\na.png,0,0,y\nb.png,31,1,x\n", size=(32, 16)):
    Image = pytest.importorskip("PIL.Image")
    for name in ("a.png", "b.png"):
        Image.new("RGB", size, (9, 9, 9)).save(tmp_path / name)
    (tmp_path / "fixations.csv").write_text(table)
    return tmp_path


def test_fixations_are_rows_and_columns_by_image_and_observer(tmp_path):
    one, two = read_fixations(photographs(tmp_path))
    assert one.size == (16, 32) and one.pixels().shape == (16, 32, 3)
    assert [looks.tolist() for looks in one.fixations] == [[[15, 3]], [[0, 0]]]
    assert two.fixations[0].tolist() == [[1, 31]]


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("image,x,y\na.png,32,0\n", r"line 2: \(32, 0\) is outside of a.png, which is 32 x 16 pixels"),
        ("image,x,y\nc.png,1,0\n", "line 2: there is no image 'c.png'"),
        ("image,x,y\n../a.png,1,0\n", "line 2: there is no image '../a.png'"),
        ("image,x,y\na.png,left,0\n", "line 2: x is 'left', expected a finite number"),
        ("image,x\na.png,1\n", "line 1: there is no column 'y'"),
        ("image,x,y\nfixations.csv,1,1\n", "line 2: fixations.csv is no image in JPEG or PNG"),
    ],
)
def test_wrong_fixations_are_refused_with_their_line(tmp_path, table, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_fixations(photographs(tmp_path, table))


def test_images_whose_sides_patches_do_not_divide_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a\.png is 30 x 16 pixels: expected sides divisible by 8"):
        read_fixations(photographs(tmp_path, size=(30, 16)))
    (tmp_path / "fixations.csv").unlink()
    with pytest.raises(ValueError, match=r"there is no fixations\.csv"):
        read_fixations(tmp_path)
