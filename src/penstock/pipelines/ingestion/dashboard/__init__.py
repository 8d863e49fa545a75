"""The pages of ingestion: knowledge bases, a run as it goes on, what a knowledge base holds, and searching it."""
