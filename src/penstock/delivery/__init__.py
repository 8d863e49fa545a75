"""Who delivers ticks. A delivery turns "there may be work" into calls of `engine.advance_next` or `engine.advance`,
and nothing else."""
