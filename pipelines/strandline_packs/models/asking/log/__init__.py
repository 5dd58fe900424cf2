"""The log of answers, on a disk or in a store, and the lookup of answers by request."""
