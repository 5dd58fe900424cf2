"""Commands for readers of a data set: its card, the latest publication, a push."""
