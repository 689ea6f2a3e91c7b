"""The Transformer: attention, layers and the cache of its steps."""
