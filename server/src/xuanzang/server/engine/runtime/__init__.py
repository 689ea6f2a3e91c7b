"""Graphs in onnxruntime, and the memory for their keys and values."""
