"""Messages to domain values, checked and completed, and results to messages."""
