"""One script for each peer, ported with care for its best settings: a ratio against a badly driven peer says nothing.

Each module defines the peer's tasks at the top, where its workers find them, and `speed`, `cold`, `waiting` or `claims`
below, which run in the peer's own environment.
"""
