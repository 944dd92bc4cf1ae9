"""Container images, pulled and converted once on the host that submits: files of the user's own store.

`registry` (the digest of a name), `runtime` (Apptainer or Singularity), `place` (an image in the store, which is that of `hubs`),
`pull` (an image into it), `needed` (the images of a plan).
"""
