"""The Open Inference Protocol (KServe v2) with Triton's additions, over gRPC and HTTP."""
