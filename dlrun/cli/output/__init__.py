"""How answers look: colour, tables, JSON."""
