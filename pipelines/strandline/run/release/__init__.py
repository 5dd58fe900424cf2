"""Leads readers to finished outputs: the gate, the list of files, a move, and a push."""
