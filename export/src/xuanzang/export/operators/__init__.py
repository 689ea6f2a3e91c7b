"""Operators of our own, as ONNX functions: what each computes, in operators that every runtime has.

A bundle holds these functions, so it runs wherever onnxruntime does; xuanzang.kernels has a faster kernel for each.
"""
