"""Commands about jobs that were submitted: their states, logs, code and results."""
