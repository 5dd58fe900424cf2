"""Words, sentences, and marks in all scripts."""
