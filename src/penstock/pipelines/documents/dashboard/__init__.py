"""The pages of the documents pipeline: documents, and the review queue."""
