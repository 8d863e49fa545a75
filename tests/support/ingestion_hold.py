"""How a test tells the embedder of another process to wait."""

HOLD = "hold"
"""The file that makes it wait: its last word is how many texts pass it first."""
