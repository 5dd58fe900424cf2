"""What the operator costs on a real API server."""
