"""What a run has of the machine: memory, GPU, processes, and signals that interrupt it."""
