"""A Gemini on your own machine: the wire protocol of the Gemini Developer API, kept on disk, answered by a backend.

`app.py` is the door, `routes.py` says what can be asked and `calls` answers it; `runner.py` works off the batches,
`state.py` keeps everything, and `faults.py` knows what can go wrong on purpose. `server.py` serves it, `launch.py`
finds or starts one for a home.
"""
