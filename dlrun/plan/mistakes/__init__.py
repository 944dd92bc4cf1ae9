"""Valid specs that are probably not what the user meant: `likely`, `arguments`, `variables`, `placeholders`, `codes`."""
