"""The dashboard: server-rendered pages, live by server-sent events, with vendored assets and no build step.

`router.py` hands the pages to the service, `rendering.py` makes a page of a template, `survey.py` knows how many jobs
there are without counting them for each request, `charts.py` is the geometry of every picture, `live.py` tells pages
that something changed, and `pages/` has one module a page.
"""
