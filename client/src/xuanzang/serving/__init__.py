"""Parts that server and gateway share: the order of calls, networks of callers, log lines."""
