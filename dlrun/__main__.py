"""`python -m dlrun`: the same as the `dlrun` command, where only the interpreter is known."""

from dlrun.cli.main import main

if __name__ == "__main__":
    main()
