"""`chamber doctor`: looks at a deployment with a server's own environment and says in sentences what is wrong."""
