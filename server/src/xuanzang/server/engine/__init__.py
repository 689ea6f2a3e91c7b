"""Sentences in, hypotheses out: queueing, batching, decoding. Knows neither gRPC nor protobuf."""
