"""What a job is and how it moves. `lifecycle.py` decides, `engine.py` is the door, everything else serves these two."""
