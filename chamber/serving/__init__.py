"""The processes of the production way to run: web, live, workers, beat; how each starts, and how it stops in order."""
