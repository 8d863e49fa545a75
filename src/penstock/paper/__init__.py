"""Foreign files as pages: PDFs and pictures turned into words with boxes, or into pictures that do no harm. Everything
but `page.py` is run in a child process, with limits."""
