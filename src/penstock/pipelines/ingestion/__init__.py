"""Ingestion: load, chunk, embed and index documents into knowledge bases that can be searched."""
