"""CUDA through CuPy: every handle, allocation, host transfer and peer movement honours the topology that it names."""

from vxgraph.runtime.backends.cupy.backend import CupyBackend

__all__ = ["CupyBackend"]
