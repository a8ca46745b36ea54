"""Backends: how a plan runs. Importing this package enlists them, in the order in which "auto" tries them."""

from ..core.registry import enlist, enlist_row_statistics, readers
from .chunked.backend import Chunked
from .chunked.row_statistics import row_statistics
from .flex import Flex
from .linear import LinearBackend
from .numba_edges.backend import EdgesCpu
from .reference import Reference
from .sdpa import Sdpa
from .separable import Separable
from .triton.dense.backend import TritonDense
from .triton.edges.backend import TritonEdges
from .triton.features.backend import TritonFeatures
from .triton.maps.reader import TritonMap

for _backend in (
    Sdpa(),
    LinearBackend(),
    Separable(),
    TritonEdges(),
    TritonDense(),
    TritonFeatures(),
    Flex(),
    EdgesCpu(),
    Chunked(),
    Reference(),
):
    enlist(_backend)
readers.append(TritonMap())
enlist_row_statistics(row_statistics)
