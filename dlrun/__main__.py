"""`python -m dlrun`: the same as the `dlrun` command, where only the interpreter is known."""

from dlrun.cli.start import main

if __name__ == "__main__":
    main()
