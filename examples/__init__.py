"""Programs written with vxgraph."""
