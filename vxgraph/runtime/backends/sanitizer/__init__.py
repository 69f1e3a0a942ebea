"""The device sanitizer: NumPy's isolated spaces under queues that run as late, or as oddly, as the plan allows."""

from vxgraph.runtime.backends.sanitizer.backend import SanitizerBackend

__all__ = ["SanitizerBackend"]
