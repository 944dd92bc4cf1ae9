"""The commands of `node.pyz`, one module each: arguments in, exit status out.

`options` has the common arguments; `dlrun.node.__main__` has the table of commands.
"""
