"""The queue of sentences, and the workers that decode them."""
