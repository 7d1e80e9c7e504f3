"""What runs in a cluster: converges on what the server desires and reports what it sees. Knows no Django."""
