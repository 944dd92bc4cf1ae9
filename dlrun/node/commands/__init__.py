"""The commands of `node.pyz`, one module each: arguments in, exit status out.

`options` has the arguments that they share; `dlrun.node.__main__` has the table.
"""
