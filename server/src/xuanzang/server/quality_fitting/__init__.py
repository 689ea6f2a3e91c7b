"""Fitting of a bundle's quality head on held-out pairs, through the engine that serves it."""
