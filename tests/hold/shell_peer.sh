#!/bin/bash
# The older shell tool, as far as it is known what it does: a ticket in a form of its own, a token made with noclobber,
# a look once in a while, the token removed by its path. Usage: shell_peer.sh NAME CMD…
# PEER_POLL: seconds between two looks. PEER_FULL_DISK: its token stays empty.
set -u
name=$1 queue=$GPU_QUEUE_DIR token=$GPU_TOKEN_FILE
shift
mkdir -p "$queue"
ticket=$queue/$(date +%s%N).$name.$$
: >"$ticket"
payload=
leave() {
    [ -z "$payload" ] || kill "$payload" 2>/dev/null
    wait
    rm -f "$ticket" ${payload:+"$token"}
    exit 143
}
trap leave TERM INT HUP

take() (
    set -C
    if [ -n "${PEER_FULL_DISK:-}" ]; then : >"$token"; else echo "$name $$" >"$token"; fi
) 2>/dev/null

until take; do
    [ -e "$ticket" ] || { echo "evicted" >&2; exit 143; }
    sleep "${PEER_POLL:-1}"
done
if [ -s "$queue/.gpu-hold-survivors" ]; then
    sed 's/^/::warning::previous holder left /; s/$/ - that device may still hold its memory/' \
        "$queue/.gpu-hold-survivors" >&2
    : >"$queue/.gpu-hold-survivors"
fi
"$@" &
payload=$!
wait "$payload"
status=$?
for pid in $(cat "${PEER_LEAVES:-/dev/null}"); do # what it found alive after its end
    printf 'pid=%s start=%s cmd=%s\n' "$pid" "$(LC_ALL=C ps -o lstart= -p "$pid")" "$(ps -o args= -p "$pid")"
done >>"$queue/.gpu-hold-survivors"
rm -f "$ticket" "$token"
exit "$status"
