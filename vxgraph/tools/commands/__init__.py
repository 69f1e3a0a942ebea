"""One module per command of `vxgraph`; `tools.cli` puts them together."""
