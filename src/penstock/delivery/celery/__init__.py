"""Delivery by Celery: a message is a hint that there may be work, and the task it starts asks the store for it.

`hints` sends them, `turn` is what a hint starts, `child` is the process in which that happens, `serving` is the worker
around the children. Nothing in a message is the truth: one too many finds nothing, beat makes up for a lost one,
and where the broker is away the children look for work by themselves.
"""
