"""Serves translation models over gRPC: `rpc` above `engine` above `bundles`, and the parts that start and stop them."""
