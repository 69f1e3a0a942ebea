"""The commands that plan or run a model; `examples.llama2.__main__` puts them together."""
