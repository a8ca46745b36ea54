"""Real data sets read from the folder that REGARD_DATA names, and planted tasks with known truth."""

from .acm import acm
from .agnews import ag_news
from .batch import Batch, Example, collate
from .drugs import drug_graphs, drug_response
from .eyes import Reading, Scene, geco, scenes
from .files import MissingData
from .heterophilous import heterophilous
from .lookup import Lookup, dictionary_lookup
from .mnist import mnist, noisy_mnist
from .molecules import molecules
from .movies import Review, movies, reviews
from .multi30k import Pairs, multi30k
from .nodes import NodeTask
from .planetoid import planetoid
from .planted import cipher, clutter, csbm, far, motifs, retrieval, two_relations
from .spoken import spoken_strings
from .sst import sst
from .task import Task, batches
from .tu import tu
from .typed import TypedTask
from .vocabulary import Vocabulary
from .word_alignments import AlignedPair, gold_alignments, reference_alignments

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
