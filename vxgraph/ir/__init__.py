"""WHAT: types, ops, the graph, its text and its verifier."""
