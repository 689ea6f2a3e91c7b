"""Import of model directories in the layout of Hugging Face: one module a family, the rest shared."""
