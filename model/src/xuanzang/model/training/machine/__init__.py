"""Resources of a run: memory, GPU, processes, and signals that interrupt it."""
