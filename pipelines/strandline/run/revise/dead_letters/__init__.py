"""Dead letters, which are rows that failed without failing their source, and their retrial."""
