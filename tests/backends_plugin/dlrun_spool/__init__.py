"""Back ends that are no part of dlrun: `scheduler` and its clients (`spool`), `launcher` (`forkrun`), `framework`."""
