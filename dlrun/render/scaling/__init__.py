"""A scaling study for people and programs: tables and pictures."""
