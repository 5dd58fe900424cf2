"""What a model is asked: prompts of rows, their lengths, the schema of answers, conversations.

It must not know where answers are kept, nor how a request travels.
"""
