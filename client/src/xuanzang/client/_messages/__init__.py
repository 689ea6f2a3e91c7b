"""Arguments to protobuf requests, and protobuf responses to values."""
