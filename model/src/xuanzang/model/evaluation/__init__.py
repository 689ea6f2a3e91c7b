"""Evaluation: test sets, scores, faults and key words, and maps of attention."""
