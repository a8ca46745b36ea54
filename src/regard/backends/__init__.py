"""Backends: how a plan runs. Importing this package enlists them, in the order in which "auto" tries them."""

from ..core.registry import enlist, readers
from .chunked import Chunked
from .edges_cpu import EdgesCpu
from .linear import Linear
from .reference import Reference
from .sdpa import Sdpa
from .separable import Separable
from .triton_dense import TritonDense
from .triton_edges import TritonEdges
from .triton_features import TritonFeatures
from .triton_map import TritonMap

for _backend in (
    Sdpa(),
    Linear(),
    Separable(),
    TritonEdges(),
    TritonDense(),
    TritonFeatures(),
    EdgesCpu(),
    Chunked(),
    Reference(),
):
    enlist(_backend)
readers.append(TritonMap())
