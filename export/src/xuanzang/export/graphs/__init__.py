"""ONNX graphs of encoder and decoder step."""
