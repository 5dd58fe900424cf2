"""Cuts: which stages have one, what they hold, and plans that begin behind one."""
