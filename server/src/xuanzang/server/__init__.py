"""The gRPC server of translation models: `rpc` above `engine` above `bundles`, and what starts and stops them."""

import os

# Set before onnxruntime is imported: its telemetry would give the machine an identifier and write files.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Set before grpc is imported: its core writes lines of its own to stderr, which are no JSON and quote callers' headers.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
