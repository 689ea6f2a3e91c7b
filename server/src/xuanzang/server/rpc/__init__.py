"""The gRPC service: messages to domain values and back, errors to status codes, health. No numpy, no onnxruntime."""
