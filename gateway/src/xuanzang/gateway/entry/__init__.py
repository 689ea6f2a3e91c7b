"""Entry of a request: who calls, what is read of it, and how many are answered at a time."""
