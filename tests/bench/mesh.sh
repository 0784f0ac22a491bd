# Sourced by the scripts beside it: a mesh of its own, `portolan up` in a directory of its own on free ports, that ends with
# the script. Reads `portolan` and `load`, and builds them (release) where they are empty. Leaves `dir`, `fact`, `operate`,
# `urls` and `key`; processes in `restarted` end with the mesh. Where the script fails, its directory is kept.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [ -z "$portolan" ] || [ -z "$load" ]; then
    (cd "$top" && cargo build --release --quiet -p portolan -p tests --bin portolan --bin load)
    built=${CARGO_TARGET_DIR:-$top/target}/release
    portolan=${portolan:-$built/portolan} load=${load:-$built/load}
fi

dir=$(mktemp -d)
up='' restarted=()
finish() {
    local status=$?
    for one in ${restarted[@]+"${restarted[@]}"}; do kill "$one" 2>/dev/null || true; done
    [ -z "$up" ] || kill -TERM "$up" 2>/dev/null || true
    wait
    if [ "$status" = 0 ]; then rm -rf "$dir"; else echo "logs are kept in $dir"; fi
}
trap finish EXIT

mkfifo "$dir/out"
"$portolan" up --port 0 --data "$dir/mesh" >"$dir/out" 2>"$dir/up.log" &
up=$!
exec 3<"$dir/out"
while IFS= read -r line <&3; do case $line in *Ctrl-C*) break ;; esac; done
cat <&3 >/dev/null &
fact() { jq -r "$@" "$dir/mesh/mesh.json"; }
operate() { "$portolan" "$@" --admin "$(fact '.admin | join(",")')" --credentials "$(fact .operator)"; }
mapfile -t urls < <(fact '.nodes[] | select(.role == "edge") | "--url=\(.plain)"')
key=$(fact .key)
