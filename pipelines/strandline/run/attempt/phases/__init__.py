"""The phases of an attempt, each a function from one `AttemptState` to the next.

`order` lists the phases. A phase whose precondition does not hold returns the state unchanged.
"""
