"""What Gemini is asked about a page: the templates, the schemas of the answers, and what is told of the page before."""
