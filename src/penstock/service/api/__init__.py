"""The HTTP API of the engine: one module for each resource; `router.py` gathers them."""
