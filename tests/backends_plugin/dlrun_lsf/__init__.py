"""IBM Spectrum LSF for dlrun: `lsf` is the back end, `options` its table, `detection` asks a cluster for a site profile."""
