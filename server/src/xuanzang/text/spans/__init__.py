"""Spans of a text that are no language: found by one catalogue, and carried through a translation as markup is."""
