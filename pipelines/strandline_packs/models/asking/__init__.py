"""Stages that ask models behind servers: requests, their answers, and the log of what was asked."""
