"""Serves translation models over gRPC: `rpc` above `engine` above `bundles`, and the parts that start and stop them."""

import os

# Before anything imports onnxruntime, which would give the machine a number and keep a file of what to report.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
