"""Measures Penstock beside its peers, in one run and in the same minutes, because machines are noisy.

`python -m bench` runs every bench there is, `python -m bench engine` one of them.
"""
