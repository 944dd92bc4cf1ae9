"""Why a job ended: `why` puts the answer together from `evidence` (notes and logs) and `patterns` (known failures)."""
