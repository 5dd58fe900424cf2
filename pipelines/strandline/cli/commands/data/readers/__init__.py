"""Commands about what readers of a data set get: its card, the latest publication, a push."""
