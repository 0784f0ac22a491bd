#!/usr/bin/env bash
# Kills the processes of a mesh in turn, with SIGKILL, under a steady load of calls and streams, and prints a table of
# what callers saw: one edge, the leader, one follower, all of central, a model server. The ledger is checked before and
# after each. The mesh is its own: `portolan up` in a directory of its own, on free ports.
#
#   tests/bench/kills.sh [OPTION VALUE]...
#
#   --portolan PATH     the executable; built (release) when not given
#   --load PATH         the load tool; built (release) when not given
#   --rate 50           calls started a second, at the edges of all three regions in turn
#   --streams-share 0.5 how many of them are streams
#   --seconds 20        how long calls are started around each kill, which strikes after a third of it
#
# A call that gets no connection goes to the next edge, as behind DNS or a load balancer: it is moved, not failed.
set -euo pipefail
export LC_ALL=C.UTF-8

rate=50 streams_share=0.5 seconds=20 portolan='' load=''
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
        --rate | --streams-share | --seconds | --portolan | --load)
            [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
            name=${1#--} name=${name//-/_}
            printf -v "$name" %s "$2"; shift 2 ;;
        *) echo "unknown option $1; --help lists them" >&2; exit 2 ;;
    esac
done
command -v jq >/dev/null || { echo "kills.sh needs jq" >&2; exit 2; }

. "$(dirname "$0")/mesh.sh"
failed=0
declare -A pid
while read -r name one; do pid[$name]=$one; done < <(fact '(.nodes + .demo)[] | "\(.name) \(.pid)"')
mapfile -t central < <(fact '.nodes[] | select(.role == "central") | .name')

check() { # asked until central answers, which an election may delay
    local report
    for _ in $(seq 100); do
        if report=$(operate ledger check --json 2>"$dir/check.log"); then
            jq -e .balanced >/dev/null <<<"$report" && echo balanced || { echo "NOT BALANCED: $report"; failed=1; }
            return
        fi
        sleep 0.2
    done
    echo "no answer: $(cat "$dir/check.log")"
    failed=1
}
leader() { operate status --json | jq -r .leader; }
restart() { # NAME
    local role config
    role=$(fact --arg name "$1" '.nodes[] | select(.name == $name) | .role')
    config=$(fact --arg name "$1" '.nodes[] | select(.name == $name) | .config')
    [ -n "$config" ] || return 0
    "$portolan" "$role" --config "$config" >/dev/null 2>>"$dir/restarted.log" &
    pid[$1]=$!
    restarted+=("$!")
}
rows=()
strike() { # WHAT, then the names of the processes
    local what=$1 before after out=$dir/load.out running
    shift
    before=$(check)
    "$load" steady "${urls[@]}" --key "$key" --model demo-small --rate "$rate" --streams-share "$streams_share" \
        --seconds "$seconds" >"$out" 2>&1 &
    running=$!
    sleep "$((seconds / 3))"
    local pids=() name
    for name in "$@"; do pids+=("${pid[$name]}"); done
    [ ${#pids[@]} = 0 ] || kill -9 "${pids[@]}"
    wait "$running" || { cat "$out" >&2; exit 1; }
    for name in "$@"; do restart "$name"; done
    after=$(check)
    local number how
    number() { sed -n "s/.* $1=\([0-9]*\).*/\1/p" <<<" $(tail -1 "$out")"; }
    how=$(sed -n 's/^ *\([0-9]* × .*\)/\1/p' "$out" | paste -sd ';' | sed 's/;/; /g')
    rows+=("| $what | $(number calls) | $(number moved) | $(number failed) | $(number failed_before_first_byte) | ${how:--} | $(number longest_outage_ms) | $before, $after |")
    printf '%s\n' "${rows[-1]}"
}

echo "$rate calls/s for $seconds s, $streams_share of them streams, to three edges in turn; the kill after $((seconds / 3)) s"
echo '| killed | calls | moved | failed | of these before a first byte | how | longest outage ms | ledger before, after |'
echo '|---|---|---|---|---|---|---|---|'
strike "nothing"
strike "an edge" edge-us
leads=$(leader)
for follower in "${central[@]}"; do [ "$follower" = "$leads" ] || break; done
strike "a follower" "$follower"
strike "the leader" "$(leader)"
strike "all of central" "${central[@]}"
strike "a model server" "$(fact '[.demo[] | select(.region == "eu")][0].name')"
exit "$failed"
