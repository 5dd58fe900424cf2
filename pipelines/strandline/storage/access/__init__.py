"""Access to stores behind URLs: clients, credentials, and refusals."""
