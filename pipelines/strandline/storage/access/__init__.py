"""Access to stores behind URLs: clients, credentials, and refused access."""
