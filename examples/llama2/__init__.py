"""Llama-2 on one or more places: prefill under one topology, decode under another."""
