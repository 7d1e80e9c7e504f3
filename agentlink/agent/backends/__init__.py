"""One module per way to run attempts."""
