"""Text to sentences, sentences to ids, and back."""
