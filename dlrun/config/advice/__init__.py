"""What to write instead: names of other programs (`names`), and values that a key does not take (`values`)."""
