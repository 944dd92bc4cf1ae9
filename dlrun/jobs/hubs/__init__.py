"""Models and data sets of the Hugging Face Hub, fetched once on the host that submits: directories of the user's own store.

`client` (what the hub says and gives), `fetch` (a revision into the store), `store` (what is there, and who uses it), `needed`
(the repositories of a plan).
"""
