#!/usr/bin/env bash
# Measures gateways side by side with nginx as a plain proxy: the same mock upstream, the same loads, one core for
# each gateway, alternating in one run. Prints the median of all rounds, and each gateway's ratio to nginx.
#
#   tests/bench/compare.sh [OPTION VALUE]... [NAME=URL=KEY=MODEL=PID[,PID]...[=CA]]...
#
# Each gateway runs already and sends the model to the mock upstream's address. Its processes are pinned to the
# gateway core; the mock and the load share the other. nginx checks a key and a rate, keeps connections alive to its
# upstream and does not buffer. Two columns are always there: `direct` (no gateway) and `nginx` (SKIPPED without it).
#
#   --rounds 3          rounds, of which the table shows the median
#   --calls 20000       calls of the closed loop           --connections 32   its connections
#   --rate 500          calls a second of the open loop    --rate-calls 5000  its calls
#   --streams 1000      parallel streams                   --chunks 100       chunks of each
#   --gap-ms 100        between two chunks of a stream
#   --mock 127.0.0.1:18080        where the mock upstream listens
#   --nginx 127.0.0.1:18081       where nginx listens
#   --gateway-core 1  --load-core 0
#   --load PATH         the load tool; built (release) when not given
set -euo pipefail
export LC_ALL=C.UTF-8

rounds=3 calls=20000 connections=32 rate=500 rate_calls=5000 streams=1000 chunks=100 gap_ms=100
mock=127.0.0.1:18080 nginx=127.0.0.1:18081 gateway_core=1 load_core=0 load=''
key=sk-compare
targets=()
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
        --*)
            name=${1#--} name=${name//-/_}
            [[ " rounds calls connections rate rate_calls streams chunks gap_ms mock nginx gateway_core load_core load " == *" $name "* ]] ||
                { echo "unknown option $1" >&2; exit 2; }
            [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
            printf -v "$name" %s "$2"; shift 2 ;;
        *=*=*=*=*) targets+=("$1"); shift ;;
        *) echo "not a gateway (NAME=URL=KEY=MODEL=PIDS): $1" >&2; exit 2 ;;
    esac
done

top=$(cd "$(dirname "$0")/../.." && pwd)
if [ -z "$load" ]; then
    (cd "$top" && cargo build --release --quiet -p tests --bin load)
    load=${CARGO_TARGET_DIR:-$top/target}/release/load
fi
ulimit -n "$(ulimit -Hn)"
dir=$(mktemp -d)
started=()
finish() {
    for pid in ${started[@]+"${started[@]}"}; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$dir"
}
trap finish EXIT

await_port() { # ADDR PID NAME LOG
    for _ in $(seq 100); do
        kill -0 "$2" 2>/dev/null || break
        (: >"/dev/tcp/${1%:*}/${1##*:}") 2>/dev/null && return 0
        sleep 0.05
    done
    echo "$3 did not start on $1:" >&2; cat "$4" >&2; exit 1
}

if (: >"/dev/tcp/${mock%:*}/${mock##*:}") 2>/dev/null; then
    echo "$mock is in use; the mock upstream needs it" >&2; exit 1
fi
taskset -c "$load_core" "$load" mock --listen "$mock" >"$dir/mock.log" 2>&1 &
mock_pid=$!; started+=("$mock_pid")
await_port "$mock" "$mock_pid" 'the mock upstream' "$dir/mock.log"
all=("direct=http://$mock=$key=mock=$mock_pid")

if nginx_path=$(command -v nginx || ls /usr/sbin/nginx 2>/dev/null); then
    cat >"$dir/nginx.conf" <<CONF
daemon off; master_process off; worker_processes 1; worker_rlimit_nofile 65536;
pid $dir/nginx.pid; error_log $dir/nginx.log error;
events { worker_connections 30000; }
http {
    access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; proxy_read_timeout 600s;
    client_body_temp_path $dir/body; proxy_temp_path $dir/proxy; fastcgi_temp_path $dir/fastcgi;
    uwsgi_temp_path $dir/uwsgi; scgi_temp_path $dir/scgi;
    map \$http_authorization \$known { default 0; "Bearer $key" 1; }
    limit_req_zone \$http_authorization zone=rate:1m rate=1000000r/s;
    limit_conn_zone \$http_authorization zone=open:1m;
    upstream mock { server $mock; keepalive 4096; keepalive_requests 1000000000; keepalive_timeout 600s; }
    server {
        listen $nginx backlog=4096;
        location / {
            if (\$known = 0) { return 401; }
            limit_req zone=rate burst=60000 nodelay; limit_conn open 60000;
            proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
        }
    }
}
CONF
    taskset -c "$gateway_core" "$nginx_path" -p "$dir" -c "$dir/nginx.conf" 2>"$dir/nginx.err" &
    nginx_pid=$!; started+=("$nginx_pid")
    await_port "$nginx" "$nginx_pid" nginx "$dir/nginx.err"
    all+=("nginx=http://$nginx=$key=mock=$nginx_pid")
else
    echo 'nginx: SKIPPED, it is not installed'
fi
all+=(${targets[@]+"${targets[@]}"})

measure() { # NAME KIND ARGUMENT...: appends "NAME KIND FIELD VALUE" lines
    local name=$1 kind=$2 out pair; shift 2
    if ! out=$(taskset -c "$load_core" "$load" "$@" 2>&1); then
        echo "$name: $kind failed: $(tail -1 <<<"$out")" >&2
        return 0
    fi
    grep -E '^  (broken|[0-9]+ ×)' <<<"$out" | sed "s/^/$name: /" >&2 || true
    for pair in $(sed -n 's/^result //p' <<<"$out"); do
        echo "$name $kind ${pair%%=*} ${pair#*=}" >>"$dir/results"
    done
}

: >"$dir/results"
for round in $(seq "$rounds"); do
    for target in "${all[@]}"; do
        IFS='=' read -r name url secret model pids ca <<<"$target"
        if [ "$name" != direct ]; then
            for pid in ${pids//,/ }; do taskset -a -p -c "$gateway_core" "$pid" >/dev/null; done
        fi
        echo "round $round of $rounds: $name" >&2
        common=(--url "$url" --key "$secret" --model "$model" --pid "$pids")
        [ -z "$ca" ] || common+=(--ca "$ca")
        measure "$name" streams streams "${common[@]}" --streams "$streams" --chunks "$chunks" --gap-ms "$gap_ms"
        measure "$name" closed calls "${common[@]}" --calls "$calls" --connections "$connections"
        measure "$name" open calls "${common[@]}" --calls "$rate_calls" --connections 64 --rate "$rate"
    done
done

names=() ; for target in "${all[@]}"; do names+=("${target%%=*}"); done
value() { # NAME KIND FIELD [max]: the median of all rounds, or their largest
    awk -v name="$1" -v kind="$2" -v field="$3" '$1 == name && $2 == kind && $3 == field { print $4 }' "$dir/results" |
        sort -g | awk -v how="${4:-median}" '{ v[NR] = $1 }
            END { if (!NR) print "-"; else if (how == "max") print v[NR]; else if (NR % 2) print v[(NR + 1) / 2];
                  else print (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
title() { printf '| %s%*s |' "$1" $((34 - ${#1})) ''; }
row() { # TITLE KIND FIELD [max]
    local name
    title "$1"
    for name in "${names[@]}"; do printf ' %12s |' "$(value "$name" "$2" "$3" "${4:-median}")"; done
    echo
}
derived() { # TITLE EXPRESSION KIND FIELD BASE [max]: `v` is the column's value, `b` the base column's
    local name base; base=$(value "$5" "$3" "$4" "${6:-median}")
    title "$1"
    for name in "${names[@]}"; do
        awk -v v="$(value "$name" "$3" "$4" "${6:-median}")" -v b="$base" -v name="$name" -v skip="$5" \
            "BEGIN { if (v == \"-\" || b == \"-\" || name == \"direct\") printf \" %12s |\", \"-\"; else printf \" %12.2f |\", ($2) }"
    done
    echo
}

echo
echo "Medians of $rounds rounds; $connections connections, open loop at $rate/s, $streams streams with a chunk each $gap_ms ms; $(uname -sr), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
title ''; printf ' %12s |' "${names[@]}"; echo
printf '|%s|' "$(printf -- '-%.0s' $(seq 36))"; for _ in "${names[@]}"; do printf -- '-------------:|'; done; echo
row 'calls/s, closed loop' closed calls_per_s
row 'CPU µs per call, closed loop' closed cpu_us
row '% of the core used, closed loop' closed busy
row "CPU µs per call at $rate/s" open cpu_us
row "p50 µs at $rate/s" open p50_us
row "p99 µs at $rate/s" open p99_us
derived "added p50 µs at $rate/s" 'v - b' open p50_us direct
derived "added p99 µs at $rate/s" 'v - b' open p99_us direct
row 'CPU µs per stream chunk' streams cpu_us
row 'chunk kept, p50 µs' streams delay_p50_us
row 'chunk kept, p99 µs' streams delay_p99_us
row 'KiB per stream (largest)' streams kib_per_stream max
row 'KiB resident after calls' open rss_kib
row 'failed calls' closed failed max
row 'broken streams' streams broken max
if [ -n "${nginx_pid:-}" ]; then
    derived 'CPU per call, × nginx' 'b > 0 ? v / b : 0' closed cpu_us nginx
    derived 'CPU per chunk, × nginx' 'b > 0 ? v / b : 0' streams cpu_us nginx
    derived 'memory per stream, × nginx' 'b > 0 ? v / b : 0' streams kib_per_stream nginx max
fi
echo 'calls/s is the gateway only where it used its core fully; otherwise the mock and the load were the limit.'
