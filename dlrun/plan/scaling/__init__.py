"""The arithmetic of scaling studies: `table` (speed-up and efficiency), `compare` (two studies), `estimate` (sizes not run)."""
