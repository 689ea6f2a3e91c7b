"""Translation of whole corpora: cut into shards, translated in any order, joined in the order of the input."""
