"""Tests that cross apps: the demo as a newcomer starts it, the pages in a browser, every URL with every role."""
