#!/bin/sh
# race_driver.sh TOKEN MARK TURNS: a shell lane's turns at the token, each as short as can be.
set -uC
token=$1 mark=$2 turns=$3

while [ "$turns" -gt 0 ]; do
    { true > "$token"; } 2> /dev/null || continue
    echo "shell $$" >> "$token"
    (
        flock -n 9 || echo overlaps >> "$mark.overlaps"
        echo turns >> "$mark.turns"
    ) 9>> "$mark"
    read -r _ pid _ < "$token" && [ "$pid" = $$ ] || echo lost >> "$mark.lost"
    rm "$token" || echo lost >> "$mark.lost"
    turns=$((turns - 1))
done
