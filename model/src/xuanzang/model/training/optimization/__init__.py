"""Optimisation: the loss, the optimisers, their learning rates, and the average of the weights."""
