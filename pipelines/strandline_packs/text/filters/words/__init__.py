"""What words, sentences and marks are, in all scripts."""
