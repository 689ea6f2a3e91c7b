"""Methods of the clients that are more than one call: streams, progressive translations, glossaries."""
