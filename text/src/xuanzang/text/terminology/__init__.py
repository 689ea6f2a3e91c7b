"""Terms, protected texts, and the glossaries that hold them."""
