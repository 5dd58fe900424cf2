"""The cost of model requests compared with a bare client, and the cost of the request log."""
