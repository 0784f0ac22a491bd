#!/usr/bin/env bash
# Checks against programs that nobody of this project wrote: real model servers behind the mesh, real clients and proxies in
# front of it. They come from ../shared; without it this suite says SKIPPED.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
kit=$PWD/../shared/real
if [ ! -d "$kit" ]; then
    echo "SKIPPED real peers: ../shared/real is not there"
    exit 0
fi
command -v jq >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends jq; }
command -v curl >/dev/null || apt-get install -y -qq --no-install-recommends curl

cargo build -p portolan --locked --quiet
portolan=$PWD/${CARGO_TARGET_DIR:-target}/debug/portolan
data=$(mktemp -d)
mesh=
failed=0
stop() {
    [ -z "$mesh" ] || { kill -TERM "$mesh" 2>/dev/null && wait "$mesh" || true; }
    "$kit/envoy.sh" stop >/dev/null 2>&1 || true
    "$kit/caddy.sh" stop >/dev/null 2>&1 || true
    LLM_NAME=llm-open "$kit/llm.sh" stop >/dev/null 2>&1 || true
    LLM_NAME=llm-keyed LLM_PORT=18104 "$kit/llm.sh" stop >/dev/null 2>&1 || true
    "$kit/embed.sh" stop >/dev/null 2>&1 || true
    "$kit/otlp.sh" stop >/dev/null 2>&1 || true
    if [ "$failed" = 0 ]; then rm -rf "$data"; else echo "logs are kept in $data"; fi
}
trap stop EXIT

echo "-- starting real model servers"
LLM_NAME=llm-open LLM_KEY='' "$kit/llm.sh" start
LLM_NAME=llm-keyed LLM_PORT=18104 "$kit/llm.sh" start
EMBED_KEY='' "$kit/embed.sh" start
"$kit/otlp.sh" start

# The open server's tokenizer as a tokenizer.json, for edges. Its GGUF file is read with what the kit makes others with.
mkdir "$data/tokenizers"
tokenizer=$data/tokenizers/smollm2.json
home=${REAL_HOME:-$HOME/.cache/real-peers}
reader=$home/venv-gguf/bin/python
if ! { [ -x "$reader" ] && "$reader" tests/real/tokenizer.py "$home/models/smollm2-135m.gguf" >"$tokenizer"; }; then
    echo "SKIPPED counts by tokenizer.json: the model's file cannot be read"
    rm -f "$tokenizer"
fi

echo "-- starting the mesh"
mkfifo "$data/out"
"$portolan" up --port 0 --data "$data/mesh" --tokenizers "$data/tokenizers" --traces http://127.0.0.1:18192 >"$data/out" 2>"$data/up.log" &
mesh=$!
exec 3<"$data/out"
while IFS= read -r line <&3; do case $line in *Ctrl-C*) break ;; esac; done
cat <&3 >/dev/null &
facts=$data/mesh/mesh.json
fact() { jq -r "$1" "$facts"; }
CA=$(fact .ca) KEY=$(fact .key)
export CA KEY
edge() { fact ".nodes[] | select(.role == \"edge\" and .region == \"$1\") | .$2"; }
operate() { "$portolan" "$@" --admin "$(fact '.admin | join(",")')" --credentials "$(fact .operator)"; }
operate apply -f tests/real/models.yaml

run() { # label, groups, then variables
    local label=$1 groups=$2
    shift 2
    echo "-- $label"
    env "$@" bash "$kit/clients/smoke.sh" $groups || failed=1
}
checks="models chat chat_raw_headers stream stream_left_early embeddings bad_key bad_request"
route() { # label, region, model, embedding model
    run "openai, $1" openai BASE_URL="$(edge "$2" url)" MODEL="$3" EMBED_MODEL="$4" CHECKS_openai="$checks"
    run "HTTP/3, 2 and 1.1, $1" http3 BASE_URL="$(edge "$2" url)" MODEL="$3" EMBED_MODEL="$4"
}
route "local" eu smollm2-135m all-minilm-l6-v2
route "peer region" ap smollm2-135m all-minilm-l6-v2
route "relayed by central" us smollm2-relayed minilm-relayed

# A proxy must pass a stream on as it comes: several reads, the first well before the last.
unbuffered() { # label, url, more arguments of curl
    local label=$1 url=$2 spread
    shift 2
    spread=$(curl -sS --no-buffer "$@" "$url/v1/chat/completions" -H "authorization: Bearer $KEY" \
        -H 'content-type: application/json' \
        -d '{"model":"smollm2-135m","stream":true,"max_tokens":60,"temperature":0,"messages":[{"role":"user","content":"Tell a long story about the sea, the wind and a lighthouse."}]}' |
        python3 -c '
import sys, time
stamps = []
for line in sys.stdin:
    if line.startswith("data: {"): stamps.append(time.monotonic())
print(len(stamps), int((stamps[-1] - stamps[0]) * 1000) if stamps else 0)')
    # shellcheck disable=SC2086
    set -- $spread
    if [ "$1" -ge 5 ] && [ "$2" -ge 50 ]; then echo "PASS $label: $1 events over $2 ms"; else
        echo "FAIL $label: $1 events over $2 ms"
        failed=1
    fi
}
echo "-- proxies in front of the edge"
plain=$(edge eu plain)
ENVOY_UPSTREAM=${plain#http://} ENVOY_UPSTREAM_HTTP=2 "$kit/envoy.sh" start
unbuffered "envoy, h2 to the edge" http://127.0.0.1:18163
"$kit/envoy.sh" stop
url=$(edge eu url)
ENVOY_UPSTREAM=${plain#http://} ENVOY_H3_CA=$CA ENVOY_H3_UPSTREAM=${url#https://} "$kit/envoy.sh" start
unbuffered "envoy, h3 to the edge" http://127.0.0.1:18163/via-h3
for version in "1.1 2" 3; do
    CADDY_UPSTREAM=$url CADDY_UPSTREAM_CA=$CA CADDY_UPSTREAM_VERSIONS=$version "$kit/caddy.sh" start
    unbuffered "caddy, HTTP/$version to the edge" "https://127.0.0.1:18151" -k
    "$kit/caddy.sh" stop
done

verdict() { # label, whether
    if [ "$2" = 0 ]; then echo "PASS $1"; else
        echo "FAIL $1"
        failed=1
    fi
}
if [ -f "$tokenizer" ]; then
    echo "-- counts of the model server itself"
    for text in shared/tokens/texts/*.txt; do
        theirs=$(jq -Rs '{content: .}' "$text" | curl -sS http://127.0.0.1:18101/tokenize -d @- | jq '.tokens | length')
        ours=$("$portolan" config tokenizer "$tokenizer" --count "$text" | awk '/^tokens:/ { print $2 }')
        verdict "counts $(basename "$text" .txt): ours $ours, the server's $theirs" "$([ "$ours" = "$theirs" ] && echo 0 || echo 1)"
    done
    missing=$(curl -sS "$(edge eu plain)/metrics" | awk '/^portolan_tokenizers_missing / { print $2 }')
    verdict "the edge has the tokenizer" "$([ "$missing" = 0 ] && echo 0 || echo 1)"
fi

echo "-- traces at a real collector"
# The spans of a trace from the caller's down, each below the one before; siblings are joined by +.
spans() { # trace, the caller's span
    "$kit/otlp.sh" seen | awk -v trace="$1" -v parent="$2" '
        $1 == "Trace" { ours = $NF == trace }
        ours && $1 == "Parent" { above = $NF }
        ours && $1 == "ID" { id = $NF }
        ours && $1 == "Name" {
            if (above in below) name[above] = name[above] "+" $NF; else name[above] = $NF
            below[above] = id
        }
        END { while (parent in below) { printf "%s ", name[parent]; parent = below[parent] } }'
}
# A caller's trace goes through each path; every span arrives once, below the one that asked for it.
traced() { # label, region, model, number of the trace, spans
    local trace span=00f067aa0ba902b7 seen=''
    trace=$(printf '4bf92f3577b34da6a3ce929d0e0e%04d' "$4")
    curl -sS --cacert "$CA" "$(edge "$2" url)/v1/chat/completions" -o /dev/null -H "authorization: Bearer $KEY" \
        -H 'content-type: application/json' -H "traceparent: 00-$trace-$span-01" \
        -d "{\"model\":\"$3\",\"max_tokens\":4,\"messages\":[{\"role\":\"user\",\"content\":\"Say hello.\"}]}"
    for _ in $(seq 50); do
        seen=$(spans "$trace" "$span")
        [ "$seen" != "$5 " ] || break
        sleep 0.2
    done
    verdict "traced, $1: $seen" "$([ "$seen" = "$5 " ] && echo 0 || echo 1)"
}
traced local eu smollm2-135m 1 "chat attempt upstream"
traced "peer region" ap smollm2-135m 2 "chat attempt serve upstream"
traced "relayed by central" us smollm2-relayed 3 "chat attempt serve upstream"

echo "-- metrics at a real Prometheus"
for region in eu us ap; do
    if "$kit/prometheus.sh" check-metrics "$(edge "$region" plain)/metrics"; then verdict "metrics of edge-$region" 0; else
        verdict "metrics of edge-$region" 1
    fi
done
PORTOLAN=$portolan bash tests/real/clickhouse.sh || failed=1
exit "$failed"
