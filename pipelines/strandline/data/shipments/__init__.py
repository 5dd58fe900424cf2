"""A data set that is handed over in one piece: its files, their bytes, and why it is not."""
