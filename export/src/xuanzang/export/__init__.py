"""From a checkpoint to a bundle: two ONNX graphs, a manifest and a certificate."""
