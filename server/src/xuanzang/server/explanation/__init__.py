"""How a translation was found: the search, the attention, and the alternatives."""
