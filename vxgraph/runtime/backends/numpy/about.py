"""What runs the ops on this host, for people.

kernels in C   add, attention, ...                              where their types have a form in C
compiler       cc (Debian 12.2.0-14+deb12u1) 12.2.0, -O3 -march=native ...
library        /home/ann/.cache/vxgraph/native-0123456789abcdef-0123456789abcdef.so
threads        8
in NumPy       argmax, concat, ...                              and all of it under "numpy:plain"
by reference   transpose, ...
"""

from __future__ import annotations

from vxgraph.runtime.backends.numpy.kernels import choices
from vxgraph.runtime.backends.numpy.native.cores import cores
from vxgraph.runtime.backends.numpy.native.library import Library, library


def about_kernels() -> list[tuple[str, str]]:
    """Names and what they say; compiles the library where it is not there yet."""
    found = library()
    by = choices(native=isinstance(found, Library))
    if isinstance(found, Library):
        made_of = found.made_of
        rows = [
            ("kernels in C", ", ".join(by["native"])),
            ("compiler", f"{made_of.version}, {' '.join(made_of.flags)}"),
            ("library", found.note or str(found.path)),
            ("threads", str(cores())),
        ]
    else:
        rows = [("kernels in C", f"none: {found.reason}")]
    return [*rows, ("in NumPy", ", ".join(by["numpy"])), ("by reference", ", ".join(by["reference"]))]
