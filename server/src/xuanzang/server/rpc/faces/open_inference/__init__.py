"""The face of the Open Inference Protocol, version 2: texts are the elements of a tensor of bytes."""
