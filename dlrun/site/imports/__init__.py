"""`dlrun site import`: draft profiles from other tools' configurations or saved scheduler output; nothing is run."""
