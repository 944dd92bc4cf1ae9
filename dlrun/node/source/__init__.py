"""The source of a copy: walked once, and described by a manifest.

Read in this order: `manifest` (a data set as a list of entries), `selection` (the user's source and filters), `walk`
and `listing` (many calls in flight), `survey` (from walk to manifest), `changes` (of a source that was surveyed
before), `subset` (one node's shard), `part` (as much as fits a node), `remote` (URLs), `objects` and `keys` (of
S3), `fetching` (ranges of a file) and `large` (of large objects), `kept` (what is there of them).
"""
