"""One package per backend; each is found through the entry-point group `vxgraph.backends`."""
