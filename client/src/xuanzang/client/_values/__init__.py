"""What callers give and get: frozen values, without gRPC."""
