"""What the commands that serve share: the order of calls, the networks of callers, log lines."""
