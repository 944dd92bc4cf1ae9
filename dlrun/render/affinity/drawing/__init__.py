"""Pictures of a node: `cells` (whose each core is), `boxes` (where everything goes), then `svg` or `blocks` (terminal)."""
