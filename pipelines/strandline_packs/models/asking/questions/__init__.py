"""Questions to a model: prompts, prompt lengths, schemas of answers, and conversations.

The package must not know where answers are logged, or how requests travel.
"""
