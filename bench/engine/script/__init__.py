"""What the measuring scripts share: their assignment, their report, clocks, memory and worker processes.

It runs in the interpreter of each contestant, so it uses the standard library only.
"""
