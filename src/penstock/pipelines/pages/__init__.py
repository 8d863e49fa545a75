"""Pages: shelves of scanned books through Gemini Batch, each page waiting for the one before it."""
