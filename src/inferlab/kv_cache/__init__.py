"""Where the keys and values of past tokens are kept."""
