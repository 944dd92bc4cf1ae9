"""Output of commands: tables, colour, JSON."""
