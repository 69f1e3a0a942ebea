"""Kernels in C, compiled by this machine's own compiler when they are first needed.

    c/          the source: a pool of threads, and kernels that it walks
    build       compiles it, once for a machine, into the user's cache
    library     loads it, once in a process, or says why there is none
    call        one kernel with its addresses bound
    pool        runs calls; cores says how many threads it has
    launch      an op in C on its tensors

What an op's types need of the rest stands in a module a family of ops, as NumPy's kernels do: linear, norm, ...
"""
