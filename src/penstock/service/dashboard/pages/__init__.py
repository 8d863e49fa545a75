"""One module a page: what it reads, and what its buttons do."""
