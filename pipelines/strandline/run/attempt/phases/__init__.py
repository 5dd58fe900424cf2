"""The phases of an attempt: each is a function from one `AttemptState` to the next.

`order` lists them. A phase whose precondition does not hold returns the state as it is.
"""
