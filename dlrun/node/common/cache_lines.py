"""What node programs print about compiled entries of earlier jobs that did not come: `dlrun usage` has it as the reason."""

LINE = "dlrun: caches: {}"
STORE_NOT_USED = "the store is not used: {}"
NOT_USED = "`{}` is not used: {}"
DAMAGED = "`{}` is damaged, and left aside"
BY_ITSELF = "this node compiles by itself: {}"
