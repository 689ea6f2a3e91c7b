"""Documents that are translated in the background and fetched later: bounded in size, number and age."""
