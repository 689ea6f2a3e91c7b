"""From a checkpoint to a bundle: two ONNX graphs, a manifest and a certificate."""

import os

# Before anything imports onnxruntime, which would give the machine a number and keep a file of what to report.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
