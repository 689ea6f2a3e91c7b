"""The APIs of Google Cloud Translation: version 3 over gRPC and HTTP, version 2 over HTTP."""
