"""How each engine carries out a case, and which there are."""
