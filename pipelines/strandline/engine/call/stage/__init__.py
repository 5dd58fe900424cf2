"""One call of one stage: the code of its author, and what is counted around it."""
