#!/usr/bin/env bash
# A steady load of calls and streams with storms of callers who leave, for long, while the memory, threads, tasks, sockets
# and metric series of each node are written down. Draws them, and fails when one of them grows: the median of the fifth
# sixth of the time is compared with that of the second. Afterwards no edge may hold credit and every budget must balance.
# The mesh is its own: `portolan up` in a directory of its own, on free ports.
#
#   tests/bench/soak.sh [OPTION VALUE]...
#
#   --portolan PATH     the executable; built (release) when not given
#   --load PATH         the load tool; built (release) when not given
#   --seconds 1800      how long
#   --rate 30           calls started a second, at the edges of all three regions in turn
#   --streams-share 0.5 how many of them are streams
#   --storm-every 20    seconds between two storms
#   --storm 120         streams of a storm, all begun at once and left
#   --every 5           seconds between two samples
#   --out DIR           where soak.csv and soak.svg go (target/soak)
set -euo pipefail
export LC_ALL=C.UTF-8

seconds=1800 rate=30 streams_share=0.5 storm_every=20 storm=120 every=5 out='' portolan='' load=''
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
        --seconds | --rate | --streams-share | --storm-every | --storm | --every | --out | --portolan | --load)
            [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
            name=${1#--} name=${name//-/_}
            printf -v "$name" %s "$2"; shift 2 ;;
        *) echo "unknown option $1; --help lists them" >&2; exit 2 ;;
    esac
done
for tool in jq curl; do command -v "$tool" >/dev/null || { echo "soak.sh needs $tool" >&2; exit 2; }; done

. "$(dirname "$0")/mesh.sh"
failed=0
out=${out:-$top/target/soak}
mkdir -p "$out"
mapfile -t nodes < <(fact '.admin as $admin | [.nodes[] | select(.role == "central")] | to_entries[]
    | "\(.value.name) \(.value.pid) https://\($admin[.key])/metrics"'
    fact '.nodes[] | select(.role == "edge") | "\(.name) \(.pid) \(.plain)/metrics"')
operator=$(fact .operator)

# A budget that the whole load fits in.
cat >"$dir/soak.yaml" <<'YAML'
budgets:
  - {name: demo-day, tenant: demo, unit: usd, window: day, limit: 100000}
YAML
operate apply -f "$dir/soak.yaml" --note soak >/dev/null

sample() { # NAME PID METRICS
    local memory threads sockets page series tasks
    memory=$(awk '/^VmRSS/ { print $2 }' "/proc/$2/status")
    threads=$(awk '/^Threads/ { print $2 }' "/proc/$2/status")
    # One that is closed meanwhile is an error to `find`.
    sockets=$({ find "/proc/$2/fd" -lname 'socket:*' 2>/dev/null || true; } | wc -l)
    # Loopback: whose certificate answers is of no interest.
    page=$(curl -sfk --max-time 2 --cert "$operator/node.pem" --key "$operator/node.key" "$3" || true)
    series=$(grep -c '^portolan' <<<"$page" || true)
    tasks=$(awk '$1 == "portolan_tasks" { print $2 }' <<<"$page")
    echo "$SECONDS,$1,$memory,$threads,$sockets,$series,${tasks:-}"
}
csv=$out/soak.csv
echo 'second,node,memory_kib,threads,sockets,series,tasks' >"$csv"
echo "$rate calls/s for $seconds s, $streams_share of them streams; every $storm_every s a storm of $storm streams that are left"
"$load" steady "${urls[@]}" --key "$key" --model demo-small --rate "$rate" --streams-share "$streams_share" \
    --seconds "$seconds" --storm-every "$storm_every" --storm "$storm" >"$dir/load.out" 2>&1 &
running=$!
SECONDS=0
while [ "$SECONDS" -lt "$seconds" ]; do
    for node in "${nodes[@]}"; do
        read -r name pid metrics <<<"$node"
        sample "$name" "$pid" "$metrics" >>"$csv"
    done
    sleep "$every"
done
wait "$running" || { cat "$dir/load.out" >&2; failed=1; exit 1; }
grep -v ' failed: ' "$dir/load.out" | tail -8

# One panel a measure, one line a node.
awk -F, -v span="$seconds" '
    NR == 1 { for (i = 3; i <= NF; i++) names[i] = $i; last = NF; next }
    !($2 in seen) { seen[$2] = ++count; order[count] = $2 }
    {
        for (i = 3; i <= last; i++) if ($i != "") {
            k = ++n[$2, i]; x[$2, i, k] = $1; y[$2, i, k] = $i
            if ($i + 0 > most[i]) most[i] = $i + 0
        }
    }
    END {
        split("#1b6ca8 #d1495b #66a182 #edae49 #5f4bb6 #2e4057 #8d6a9f #c06014", colours, " ")
        width = 900; high = 150; gap = 45
        printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\"", width + 160, (high + gap) * (last - 2) + 20
        print " font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
        for (i = 3; i <= last; i++) {
            top = (i - 3) * (high + gap) + 25
            printf "<text x=\"20\" y=\"%d\">%s, at most %d</text>\n", top - 6, names[i], most[i]
            printf "<rect x=\"20\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#bbb\"/>\n", top, width, high
            for (c = 1; c <= count; c++) {
                node = order[c]
                if (!n[node, i]) continue
                printf "<polyline fill=\"none\" stroke=\"%s\" points=\"", colours[(c - 1) % 8 + 1]
                for (k = 1; k <= n[node, i]; k++)
                    printf "%.1f,%.1f ", 20 + x[node, i, k] / span * width, top + high - y[node, i, k] / (most[i] ? most[i] : 1) * high
                print "\"/>"
            }
        }
        for (c = 1; c <= count; c++)
            printf "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", width + 35, 30 + c * 18, colours[(c - 1) % 8 + 1], order[c]
        print "</svg>"
    }' "$csv" >"$out/soak.svg"

# Grown: by more than a tenth, and by more than what comes and goes (2 MiB, 2 threads, 20 sockets, 5 series, 30 tasks). The usage
# store of a central node keeps up to 16 MiB of its pages in memory.
awk -F, -v span="$seconds" '
    function median(count,    i, j, held) {
        for (i = 2; i <= count; i++) {
            held = list[i]
            for (j = i - 1; j >= 1 && list[j] > held; j--) list[j + 1] = list[j]
            list[j + 1] = held
        }
        return list[int((count + 1) / 2)]
    }
    function part(node, i, sixth,    k) {
        split("", list)
        for (k = 1; k <= n[node, i, sixth]; k++) list[k] = v[node, i, sixth, k]
        return median(n[node, i, sixth])
    }
    NR == 1 {
        for (i = 3; i <= NF; i++) names[i] = $i
        # A thread more for each piece of blocking work that ever coincided; they leave after ten idle seconds.
        last = NF; slack[3] = 2048; slack[4] = 8; slack[5] = 20; slack[6] = 5; slack[7] = 30
        next
    }
    !($2 in seen) { seen[$2] = 1; order[++count] = $2 }
    { sixth = int($1 / span * 6); for (i = 3; i <= last; i++) if ($i != "") v[$2, i, sixth, ++n[$2, i, sixth]] = $i + 0 }
    END {
        printf "| node |"; for (i = 3; i <= last; i++) printf " %s |", names[i]
        printf "\n|---|"; for (i = 3; i <= last; i++) printf "---|"; print ""
        for (c = 1; c <= count; c++) {
            printf "| %s |", order[c]
            for (i = 3; i <= last; i++) {
                early = part(order[c], i, 1); late = part(order[c], i, 4)
                room = slack[i] + (i == 3 && order[c] ~ /^central/ ? 16384 : 0)
                grown = late > early * 1.1 && late > early + room
                printf " %s → %s%s |", early, late, grown ? " GREW" : ""
                bad += grown
            }
            print ""
        }
        exit bad > 0
    }' "$csv" || failed=1

held=''
for _ in $(seq 100); do
    held=$(operate budgets --json | jq '[.budgets[].holders[] | select(.held > 0)] | length')
    [ "$held" != 0 ] || break
    sleep 0.2
done
echo "edges that hold credit after the load: $held"
[ "$held" = 0 ] || failed=1
if operate ledger check --json | jq -e .balanced >/dev/null; then
    echo "the ledger is balanced"
else
    echo "NOT BALANCED"
    failed=1
fi
echo "$csv, $out/soak.svg"
exit "$failed"
