"""Servers that speak OpenAI's protocol as a place where texts are embedded: OpenAI's own, vLLM, Ollama, llama.cpp.

Nothing is imported here: `settings` is light and read by every command, the HTTP client is not.
"""
