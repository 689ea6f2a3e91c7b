"""One call: its channel, key and metadata, its attempts, and the errors that end it."""
