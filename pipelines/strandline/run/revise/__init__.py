"""Works again on finished sources: redo, cuts, marks, dead letters, and repair."""
