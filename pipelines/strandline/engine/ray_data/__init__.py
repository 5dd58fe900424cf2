"""The engine on Ray Data: the stages as one data set's operators, resumed by our ledger.

It must not know what makes a source finished.
"""
