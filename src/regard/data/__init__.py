"""Real data sets read from the folder that REGARD_DATA names, and planted tasks with known truth."""

from ..lab.data.acm import acm
from ..lab.data.agnews import ag_news
from ..lab.data.drugs import drug_graphs, drug_response
from ..lab.data.eye_tracking import Reading, Scene, geco, scenes
from ..lab.data.heterophilous import heterophilous
from ..lab.data.lookup import Lookup, dictionary_lookup
from ..lab.data.mnist import mnist, noisy_mnist
from ..lab.data.molecules import molecules
from ..lab.data.movies import Review, movies, reviews
from ..lab.data.multi30k import Pairs, multi30k
from ..lab.data.planetoid import planetoid
from ..lab.data.planted import cipher, clutter, csbm, far, motifs, retrieval, two_relations
from ..lab.data.spoken_digits import spoken_strings
from ..lab.data.sst import sst
from ..lab.data.tu_graphs import tu
from ..lab.data.word_alignments import AlignedPair, gold_alignments, reference_alignments
from .batch import Batch, Example, collate
from .files import MissingData
from .hetero import TypedTask
from .nodes import NodeTask
from .task import Task, batches
from .vocabulary import Vocabulary

__all__ = [
    "AlignedPair",
    "Batch",
    "Example",
    "Lookup",
    "MissingData",
    "NodeTask",
    "Pairs",
    "Reading",
    "Review",
    "Scene",
    "Task",
    "TypedTask",
    "Vocabulary",
    "acm",
    "ag_news",
    "batches",
    "cipher",
    "clutter",
    "collate",
    "csbm",
    "dictionary_lookup",
    "drug_graphs",
    "drug_response",
    "far",
    "geco",
    "gold_alignments",
    "heterophilous",
    "mnist",
    "molecules",
    "motifs",
    "movies",
    "multi30k",
    "noisy_mnist",
    "planetoid",
    "reference_alignments",
    "retrieval",
    "reviews",
    "scenes",
    "spoken_strings",
    "sst",
    "tu",
    "two_relations",
]
