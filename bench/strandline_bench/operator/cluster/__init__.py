"""A simulated cluster beside a real API server: controllers, kubelets, and drivers."""
