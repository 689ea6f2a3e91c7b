"""What becomes of logits before a token is chosen."""
