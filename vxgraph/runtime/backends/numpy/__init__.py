"""The embedded backend: every topology is an address space of its own in host memory, every kernel is NumPy."""

from vxgraph.runtime.backends.numpy.backend import NumpyBackend

__all__ = ["NumpyBackend"]
