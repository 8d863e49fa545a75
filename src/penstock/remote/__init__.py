"""Slow outside work: Gemini, functions, a pool of processes. What a call is and how it moves is in `engine/call.py`;
here it is made, watched and brought home."""
