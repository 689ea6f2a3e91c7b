"""How far to trust a translation: features of a search, a probability, and flags."""
