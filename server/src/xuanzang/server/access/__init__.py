"""Access: API keys in a file, who a caller is, and what its key allows. Knows neither gRPC nor the messages."""
