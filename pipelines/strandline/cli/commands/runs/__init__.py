"""Commands that start a run, end it, or tell how it goes."""
