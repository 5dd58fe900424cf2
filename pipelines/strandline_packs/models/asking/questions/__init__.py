"""Questions to a model: prompts, prompt lengths, schemas of answers, and conversations.

The package must not depend on where answers are logged, or how requests travel.
"""
