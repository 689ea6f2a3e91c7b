"""Messages of programs, in the files of their catalogues."""
