"""`dlrun site import`: first profiles from what others wrote about a cluster, or its scheduler printed; nothing is run."""
