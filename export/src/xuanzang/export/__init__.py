"""Export of checkpoints to bundles: ONNX graphs, weights, a manifest and a certificate."""

import os

# Before anything imports onnxruntime, which would otherwise identify the machine and collect usage data.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
