"""The error messages of other programs that `dlrun why` knows, as data: one module for each group of writers.

Begin with `form`, which has the types and the rule by which a line is matched; `causes` has what each cause means, how to
check it and the way out; `table` puts the groups together, in the order in which they are tried.
"""
