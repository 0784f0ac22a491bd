#!/usr/bin/env bash
# Receipts at real ClickHouse servers, an old one and a new one: the sums there are those of the usage store, though central's
# leader is killed while they are sent, and the server is away for a while. Needs ../shared/real, as run.sh does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
kit=$PWD/../shared/real
if [ ! -d "$kit" ]; then
    echo "SKIPPED real ClickHouse: ../shared/real is not there"
    exit 0
fi
[ -n "${PORTOLAN:-}" ] || cargo build -p portolan --locked --quiet
portolan=${PORTOLAN:-$PWD/${CARGO_TARGET_DIR:-target}/debug/portolan}
data=$(mktemp -d)
mesh=
failed=0
password=real-clickhouse-password
export CLICKHOUSE_PASSWORD=$password CLICKHOUSE18_PASSWORD=$password CLICKHOUSE_FRESH=1
declare -A central
stop() {
    for pid in "${central[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
    [ -z "$mesh" ] || { kill -TERM "$mesh" 2>/dev/null && wait "$mesh" || true; }
    "$kit/clickhouse.sh" stop >/dev/null 2>&1 || true
    "$kit/clickhouse18.sh" stop >/dev/null 2>&1 || true
    if [ "$failed" = 0 ]; then rm -rf "$data"; else echo "logs are kept in $data"; fi
}
trap stop EXIT
printf '%s\n' "$password" >"$data/password"

fact() { jq -r "$1" "$facts"; }
operate() { "$portolan" "$@" --admin "$(fact '.admin | join(",")')" --credentials "$(fact .operator)"; }
ask() { # url, query
    curl -sS "$1/" -H 'x-clickhouse-user: default' -H "x-clickhouse-key: $password" --data-binary "$2"
}
run() { # name: a central node of the mesh, again
    local config
    config=$(fact ".nodes[] | select(.name == \"$1\") | .config")
    "$portolan" central --config "$config" >>"$data/$1.log" 2>&1 &
    central[$1]=$!
}
leader() { operate status --json | jq -r '.leader // ""'; }
led() { for _ in $(seq 100); do [ -z "$(leader)" ] || return 0; sleep 0.2; done; return 1; }
calls() { # how many
    local url
    url=$(fact '.nodes[] | select(.role == "edge" and .region == "eu") | .plain')
    seq "$1" | xargs -P 8 -I{} curl -sS -o /dev/null --retry 20 --retry-all-errors --fail "$url/v1/chat/completions" \
        -H "authorization: Bearer $(fact .key)" -H 'content-type: application/json' -H 'x-portolan-scenario: real' \
        -H 'x-portolan-user: user-{}' -d '{"model":"demo-small","max_tokens":8,"messages":[{"role":"user","content":"hi {}"}]}'
}
ours() { operate usage --since 1d --json | jq -r '.rows[0] | "\(.calls) \(.input) \(.output) \(.cost)"'; }
theirs() { # url
    ask "$1" "SELECT countIf(kind = 'call'), sum(input), sum(output), sum(cost_nano) FROM portolan_receipts_once FORMAT TSV" | tr '\t' ' '
}
check() { # label, url, kit
    local label=$1 url=$2 peer=$3 name was seen='' data_of
    echo "-- receipts at $label"
    "$kit/$peer.sh" start >/dev/null
    # A server may have the rows of another run.
    ask "$url" 'DROP TABLE IF EXISTS portolan_receipts_once'
    ask "$url" 'DROP TABLE IF EXISTS portolan_receipts'
    data_of=$data/$peer
    mkfifo "$data_of.out"
    "$portolan" up --port 0 --data "$data_of" >"$data_of.out" 2>"$data_of.log" &
    mesh=$!
    exec 3<"$data_of.out"
    while IFS= read -r line <&3; do case $line in *Ctrl-C*) break ;; esac; done
    cat <&3 >/dev/null &
    facts=$data_of/mesh.json
    for name in $(fact '.nodes[] | select(.role == "central") | .name'); do
        printf '\n[usage.clickhouse]\nurl = "%s"\nuser = "default"\npassword_file = "%s"\n' "$url" "$data/password" \
            >>"$(fact ".nodes[] | select(.name == \"$name\") | .config")"
        kill -TERM "$(fact ".nodes[] | select(.name == \"$name\") | .pid")"
        while kill -0 "$(fact ".nodes[] | select(.name == \"$name\") | .pid")" 2>/dev/null; do sleep 0.1; done
        run "$name"
        led
    done
    calls 120
    calls 120 &
    local calling=$!
    was=$(leader)
    kill -KILL "${central[$was]}"
    wait "$calling"
    led
    run "$was"
    CLICKHOUSE_FRESH='' "$kit/$peer.sh" stop >/dev/null 2>&1
    calls 60
    CLICKHOUSE_FRESH='' "$kit/$peer.sh" start >/dev/null
    for _ in $(seq 240); do
        seen=$(theirs "$url" 2>/dev/null || true)
        [ -z "$seen" ] || [ "$seen" != "$(ours)" ] || [ "${seen%% *}" -lt 300 ] || break
        sleep 0.5
    done
    local raw distinct wanted
    raw=$(ask "$url" 'SELECT count() FROM portolan_receipts FORMAT TSV')
    distinct=$(ask "$url" 'SELECT uniqExact(request), uniqExact(user), uniqExact(scenario) FROM portolan_receipts_once FORMAT TSV' | tr '\t' ' ')
    wanted=$(ours)
    if [ "$seen" = "$wanted" ] && [ "${seen%% *}" -ge 300 ]; then
        echo "PASS $label: calls, input, output, nano-dollars $seen; rows before merging $raw; requests, users, scenarios $distinct"
    else
        echo "FAIL $label: there $seen, here $wanted; rows $raw; requests, users, scenarios $distinct"
        failed=1
    fi
    if grep -rl "$password" "$data"/*.log "$data_of"/logs >/dev/null 2>&1; then
        echo "FAIL $label: a log tells the password"
        failed=1
    fi
    for name in "${!central[@]}"; do kill -TERM "${central[$name]}" 2>/dev/null || true; done
    central=()
    kill -TERM "$mesh" && wait "$mesh" || true
    mesh=
    "$kit/$peer.sh" stop >/dev/null 2>&1 || true
}
check "ClickHouse 26.9's engine" http://127.0.0.1:18171 clickhouse
check "ClickHouse 18.16" http://127.0.0.1:18172 clickhouse18
exit "$failed"
