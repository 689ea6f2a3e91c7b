"""Files of a bundle, and the folder that holds them."""
