"""A scaling study as text (`texts`: terminal, Markdown, LaTeX, CSV) and as a picture (`picture`: needs matplotlib)."""
