"""The formats, one module each, with a function `read`; `documents.opening` has the table of their suffixes."""
