"""Entry of a request: its caller, its body, and the limits on concurrent requests."""
