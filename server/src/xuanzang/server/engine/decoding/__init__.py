"""Beam search over running batches of sentences."""
