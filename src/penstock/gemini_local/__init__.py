"""A Gemini on your own machine: the wire protocol of the Gemini Developer API, kept on disk, answered by a backend.

`app.py` is the door, `routes.py` says what can be asked, `state.py` is the only thing that touches the database and
`faults.py` the only thing that lies on purpose. `server.py` serves it, `launch.py` finds or starts one.
"""
