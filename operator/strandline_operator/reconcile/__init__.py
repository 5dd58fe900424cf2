"""One pass over a pipeline (read, decide, write), and the scheduling of passes."""
