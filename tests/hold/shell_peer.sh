#!/bin/sh
# A lane of the older shell tool, as far as it is known: the token by noclobber, its own name and pid in the first line,
# released by rm; a ticket of its own form; a poll; the survivors' list. Everything else about that tool is unknown.
#
#   shell_peer.sh [-w SECONDS] CMD…     GPU_QUEUE_DIR, GPU_TOKEN_FILE; PEER_LANE, PEER_DATE, PEER_POLL (seconds)
#
# A signal ends the payload's direct child only, and whatever is left of its session is listed as survivors.
set -uC
queue=$GPU_QUEUE_DIR token=$GPU_TOKEN_FILE
ticket=$queue/job.${PEER_LANE:-shell}.$$
list=$queue/.gpu-hold-survivors
root='' until='' stopped=''

[ "$1" != -w ] || { until=$(($(date +%s) + $2)); shift 2; }

leave() { rm -f "$ticket"; exit "$1"; }

take() {
    # The name comes first, and the content only if there is room: what cannot be written is held empty.
    { true > "$token"; } 2> /dev/null || return 1
    { echo "${PEER_LANE:-shell} $$${PEER_DATE:+ $PEER_DATE}" >> "$token"; } 2> /dev/null || :
}

announce() {
    [ -s "$list" ] || return 0
    while IFS= read -r line; do
        printf '%s\n' "::warning::previous holder left $line - that device may still hold its memory" >&2
    done < "$list"
    : >| "$list"
}

survivors() {
    ps -o pid=,stat= -s "$root" | while read -r pid state; do
        case $state in
            Z*) ;;
            *) echo "pid=$pid start=$(ps -o lstart= -p "$pid") cmd=$(ps -o args= -p "$pid")" >> "$list" ;;
        esac
    done
}

: > "$ticket"
trap 'leave 143' TERM INT HUP
until take; do
    [ -e "$ticket" ] || leave 120
    [ -z "$until" ] || [ "$(date +%s)" -lt "$until" ] || leave 121
    sleep "${PEER_POLL:-1}"
done
trap 'stopped=yes; [ -z "$root" ] || kill "$root"' TERM INT HUP
announce
setsid "$@" &
root=$!
[ -z "$stopped" ] || kill "$root"
wait "$root"
status=$?
while kill -0 "$root" 2> /dev/null; do wait "$root"; status=$?; done
survivors
rm -f "$token"
leave "$status"
