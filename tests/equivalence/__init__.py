"""Original batch scripts and the jobs that `dlrun init --from` makes of them, run side by side in a sandbox and compared."""
