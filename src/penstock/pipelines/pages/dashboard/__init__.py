"""The pipeline's pages of the dashboard: runs, the grid of books, one book, one page, batches and failures."""
