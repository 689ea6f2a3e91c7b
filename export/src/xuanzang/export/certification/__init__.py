"""Measurement of the graphs against numpy."""
