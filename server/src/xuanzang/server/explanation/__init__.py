"""Explanation of a translation: the search, the attention, and the alternatives."""
