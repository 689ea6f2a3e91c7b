"""One call of the engine, from texts to translations."""
