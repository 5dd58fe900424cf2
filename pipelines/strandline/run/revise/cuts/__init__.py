"""Cuts: which stages have a cut, what cuts contain, and plans that start after a cut."""
