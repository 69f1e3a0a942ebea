"""What `benchmarks.cpu_llama` measures: the engines, each in a process of its own, and the ceilings of the machine."""
