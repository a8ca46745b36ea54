"""Attention over edges on a CPU, compiled by numba on first use and kept on disk.

Design: a row of the graph is a piece of work, and a row with more than LIMIT edges is cut into parts whose sums are
added in order; pieces are joined into chunks of about equal cost which threads take one after another. Which thread
takes which chunk changes nothing, so results are the same bits for any number of threads. A chunk runs in batches of
about BATCH edges: the ends and the ids of a batch are listed first, so that scores, exponentials and dropout are long
loops even where rows are short, and nothing is allocated for a row. Rows are prefetched some edges ahead.
Tables are node-major, (nodes, heads x width). Kernels release the interpreter and start no threads of their own.

    backend      which plans run here, and the operators
    arguments    what the operators take
    launch       tables, hubs, chunks and threads of one call
    forward, backward                        the kernels
    schedule, scores, alignments, dropout, row_sums, elementwise     their parts
    vector_ops   hand-written LLVM, with a plain loop for each in vector_ops_naive
    jit          compilation, and its cache on disk
"""
