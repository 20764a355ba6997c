# The traces of executed training that are shipped: simulate reads each, and says what balancing is
# worth. Usage: recorded_runs.sh DYNMO
recorded=$(cd "$(dirname "$0")/../../traces/recorded" && pwd)
. cli/expect.sh

# speedup NAME ITERATIONS: of partition every:10 over even, in thousandths.
speedup() {
    gzip -dc "$recorded/cpu-$1.db.gz" >"$1.db"
    cat >"$1.json" <<END
{"schema":"dynmo-study/1","name":"$1","trace":"$1.db",
 "training":{"iterations":$2,"microbatches":8},"pipeline":{"stages":4,"schedule":"zb-h1"},
 "balancing":[{"balancer":"even"},{"balancer":"partition","policy":"every:10"}]}
END
    "$dynmo" simulate "$1.json" --json >"$1.answer" 2>err || fail "simulate of $1: $(cat err)"
    sed -n 's/.*"relative_to_even":\([0-9.]*\).*/\1/p' "$1.answer" | awk '{ printf "%d", $1 * 1000 }'
}

for name in dense mod moe pruning sparse-attention; do
    [ "$(speedup $name 60)" -ge 950 ] || fail "$name: balancing costs more than 5 %"
done
[ "$(speedup freezing 80)" -ge 1100 ] || fail 'freezing: balancing is worth less than 10 %'
[ "$(speedup early-exit 100)" -ge 1250 ] || fail 'early-exit: balancing is worth less than 25 %'
exit "$failed"
