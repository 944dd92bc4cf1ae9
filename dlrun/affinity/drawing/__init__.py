"""Pictures of a node: `boxes` (use of each core, and layout), then `svg` or `blocks` (terminal)."""
