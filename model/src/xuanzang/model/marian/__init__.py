"""Checkpoints of MarianMT, such as those of OPUS-MT, in the layout of Hugging Face."""
