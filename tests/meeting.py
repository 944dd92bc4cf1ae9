"""Where the ranks of a test's job meet: the first that fails ends the others, which may have done nothing yet."""

from __future__ import annotations

ALL_HERE = (
    ': >"$DLRUN_RUN_DIR/here-$DLRUN_RESTART-$DLRUN_RANK"; '
    'until here=("$DLRUN_RUN_DIR/here-$DLRUN_RESTART-"*); ((${#here[@]} == DLRUN_WORLD_SIZE)); do sleep 0.1; done'
)
"""Bash for a rank, between what the test wants from each and the end of one that fails, in every run of the job."""
