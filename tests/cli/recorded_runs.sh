# The traces of executed training that are shipped: simulate reads each as it is, compressed, and says what balancing is
# worth. Usage: recorded_runs.sh DYNMO
recorded=$(cd "$(dirname "$0")/../../traces/recorded" && pwd)
. cli/expect.sh

# speedup NAME ITERATIONS: of partition every:10 over even, in thousandths.
speedup() {
    cat >"$1.json" <<END
{"schema":"dynmo-study/1","name":"$1","trace":"$recorded/cpu-$1.db.gz",
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

# A stage is too long where a split of whole layers mends it, whether or not somebody says which layers it has.
for layers in '' '--layers 4,3,3,4' '--layers 3,3,3,3'; do
    for run in 'freezing last stage too long' 'mod '; do
        # shellcheck disable=SC2086 # words
        "$dynmo" stragglers "$recorded/cpu-${run%% *}.db.gz" $layers --json >slow.json || fail "stragglers of $run"
        [ "$(sed -n 's/.*"cause":"\([^"]*\)".*/\1/p' slow.json)" = "${run#* }" ] || fail "stragglers $layers of $run: $(cat slow.json)"
    done
done
"$dynmo" stragglers "$recorded/cpu-freezing.db.gz" --json | grep -q '"split":\[4,4,3,3\]' || fail 'the split that mends freezing'

# Commands that read a store read a compressed one; one that writes refuses it.
cp "$recorded/cpu-freezing.db.gz" kept.db.gz
gzip -dc kept.db.gz >kept.db
for command in stragglers show 'show --loads'; do
    for store in kept.db kept.db.gz; do
        # shellcheck disable=SC2086 # words
        "$dynmo" $command $store >$store.out || fail "$command $store"
    done
    cmp kept.db.out kept.db.gz.out || fail "$command of a compressed store"
    [ "$command" != stragglers ] || cp kept.db.out kept.db.gz.stragglers
done
"$dynmo" check --plan kept.db --measured kept.db.gz >agrees || fail 'check of a compressed store'
refuse 2 'freezing.json: kept.db.gz: not a SQLite file' simulate freezing.json --store kept.db.gz
cmp kept.db.gz "$recorded/cpu-freezing.db.gz" || fail 'a compressed store was written to'
# One whose writer was killed asks for a log beside it.
printf '\002\002' | dd of=kept.db bs=1 seek=18 conv=notrunc 2>/dev/null
gzip -c kept.db >logged.db.gz
"$dynmo" stragglers logged.db.gz >logged.out || fail 'a compressed store with a log'
cmp logged.out kept.db.gz.stragglers || fail 'answers of a compressed store with a log'
head -c 30000 kept.db.gz >cut.db.gz
refuse 2 'cut.db.gz: gzip data ends early: the file is truncated' show cut.db.gz
exit "$failed"
