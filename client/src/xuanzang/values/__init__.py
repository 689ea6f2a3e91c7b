"""Values that a server's callers and those of translation in one process get alike; it imports no room."""
