"""The arithmetic of scaling studies: speed-up, efficiency, comparisons and estimates. No I/O."""
