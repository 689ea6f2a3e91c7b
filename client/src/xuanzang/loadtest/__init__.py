"""Load tests: what a server answers how fast, as callers feel it who do not wait for one another."""
