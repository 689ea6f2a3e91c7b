"""The engine and CTranslate2 on the same weights, behind gRPC and alone: `make bench`, and steps of bundles."""
