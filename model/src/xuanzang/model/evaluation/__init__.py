"""Evaluation: test sets, scores, faults and key words."""
