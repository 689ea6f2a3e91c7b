"""Measurement of the graphs against torch."""
