"""What the databases themselves allow: bare loops with the promises of a durable engine and none of its features."""
