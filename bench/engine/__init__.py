"""The engine bench: jobs, workflows, latency, memory, cold start and the cost of a claim, ours beside the peers'.

`contestants.py` lists who takes part, `measures.py` what is measured, `run.py` runs the rounds. What runs inside a
contestant's own interpreter is in `ours.py`, `limits/` and `peers/`, with `script/` as the part they share.
"""
