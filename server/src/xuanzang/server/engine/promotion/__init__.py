"""Which version of a model answers: the gate before it goes live, and its comparison with the live one."""
