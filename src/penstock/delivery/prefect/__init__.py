"""Delivery by Prefect 3: a flow run advances the jobs of one workflow, and Prefect shows what it does.

Prefect decides nothing: which job is next, how often a step is tried and how many run at once are the engine's. Only
`naming` may be imported where `penstock[prefect]` is not installed.
"""
