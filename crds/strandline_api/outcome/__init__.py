"""Why an attempt ended: causes, the evidence for them, exit codes and a driver's last line.

It must not know what is done about it.
"""
