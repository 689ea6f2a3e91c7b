"""Load tests: throughput and latency of a server under open and closed loads."""
