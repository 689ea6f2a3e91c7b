"""Promotion of versions: the gate before one goes live, and its comparison with the live one."""
