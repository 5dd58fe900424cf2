"""A pass over one pipeline (read, decide, write), and the scheduling of passes."""
