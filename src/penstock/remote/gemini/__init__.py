"""Gemini as a place where work is done: batches, single calls, embeddings and cached contexts.

Nothing is imported here: `settings` is light and read by every command, the SDK is not.
"""
