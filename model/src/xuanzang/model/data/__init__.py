"""Training data: from text files of sentence pairs to batches of ids."""
