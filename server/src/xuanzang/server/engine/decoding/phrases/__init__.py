"""Sentences whose translations must hold phrases: automata, and the choice of hypotheses among all continuations."""
