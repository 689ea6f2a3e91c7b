"""Observation of single RPCs by operators: traces and the access log."""
