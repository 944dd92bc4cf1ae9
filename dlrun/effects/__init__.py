"""Everything that touches the world: processes, files, transports, jobs."""
