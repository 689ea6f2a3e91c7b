"""The Transformer in PyTorch: tokeniser, data, training and evaluation."""
