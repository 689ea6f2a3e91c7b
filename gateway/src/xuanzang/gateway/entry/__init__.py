"""How a request comes in: who calls, what is read of it, and how many are answered at a time."""
