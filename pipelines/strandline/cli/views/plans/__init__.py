"""Previews of plans: facts in, text or plain data out."""
