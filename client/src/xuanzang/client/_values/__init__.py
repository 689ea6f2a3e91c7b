"""Arguments and results of callers: frozen values, without gRPC."""
