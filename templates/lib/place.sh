# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# A rank of a point that shares its node with other points: the ranks of all places divide the node by one plan.

dlrun_take_place() { # PLACES: until dlrun_leave_place, the local rank is the number among the ranks of all places
  _dlrun_of_point="$DLRUN_LOCAL_RANK $DLRUN_LOCAL_SIZE"
  DLRUN_LOCAL_RANK=$((DLRUN_PLACE * DLRUN_LOCAL_SIZE + DLRUN_LOCAL_RANK)) DLRUN_LOCAL_SIZE=$(($1 * DLRUN_LOCAL_SIZE))
}

dlrun_leave_place() { read -r DLRUN_LOCAL_RANK DLRUN_LOCAL_SIZE <<<"$_dlrun_of_point"; }
