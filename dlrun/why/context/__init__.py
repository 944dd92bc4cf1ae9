"""What other lines of a log add to an error: who was missing where ranks wait, and what an earlier attempt failed of."""
