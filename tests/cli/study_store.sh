# dynmo study on several threads and with --store: the same answer on any number of them, from the
# store, and after an interruption. hard_use.py kills it and fills its disk.
# Usage: study_store.sh DYNMO
. cli/expect.sh

head='{"schema":"dynmo-study/1","name":"grid","model":"gpt2","hardware":"h100-sxm","cluster":{"gpus":16,"links":{"inter":{"latency_ns":5000,"bytes_per_s":50000000000}}},
 "training":{"iterations":2,"global_batch":64,"sequence_length":512,"microbatch_size":1,"data_parallel":"fill"},
 "pipeline":{"stages":2},
 "vary":{"pipeline.stages":[2,4,8],"training.microbatch_size":[1,2,4],"cluster.links.inter.latency_ns":['
# study FILE COUNT: with so many latencies
study() {
    { echo "$head"; seq -s , 1000 $((1000 + $2 - 1)); echo ']}}'; } >"$1"
}
study study.json 100
"$dynmo" study study.json --json --threads 1 --draws 20 >whole 2>err || fail "alone: $(cat err)"
[ -s err ] && fail "alone it says: $(cat err)"

# same STDERR WORD...: the same answer, and this on standard error, %T being when the run began
same() {
    stderr=$1
    shift
    "$dynmo" study study.json --json --draws 20 "$@" >out 2>err || fail "study $*: $(cat err)"
    cmp -s whole out || fail "study $*: another answer"
    printf '%s' "$stderr${stderr:+
}" >wanted
    sed 's/begun [0-9TZ:-]*/begun %T/' err | cmp -s wanted - || fail "study $* says: $(cat err)"
}
same '' --threads 2
same '' --threads 5
same '' --store s.db
same 'answered from run 1 of s.db, begun %T' --store s.db --threads 3

# What the answer depends on makes another run.
sed 's/"global_batch":64/"global_batch":128/' study.json >other.json
"$dynmo" study other.json --store s.db --json --draws 20 >out 2>err || fail "another study: $(cat err)"
[ -s err ] && fail "another study is taken for the first: $(cat err)"
"$dynmo" study study.json --store s.db --json --draws 30 >out 2>err || fail "other draws: $(cat err)"
[ -s err ] && fail "other draws are taken for the first: $(cat err)"

# An interruption ends it with 130, whenever it comes, and costs nothing that was kept.
study large.json 4096
"$dynmo" study large.json --store large.db --json --draws 0 --threads 1 >out 2>err &
child=$!
while [ ! -s large.db ] && kill -0 $child 2>/dev/null; do sleep 0.05; done
kill -INT $child
wait $child
code=$?
[ $code -eq 130 ] || fail "interrupted: exit $code, $(cat err)"
[ -s out ] && fail 'interrupted it answers'
[ $code -ne 130 ] || grep -q '^what was done is kept; the same command goes on with it$' err || fail "no way on: $(cat err)"

# What another program has put there is refused.
if command -v python3 >/dev/null; then
    python3 -c "import sqlite3; s = sqlite3.connect('s.db')
s.execute(\"UPDATE item SET result = x'0102' WHERE pass = 1\"); s.commit()" || fail 'no other results'
    "$dynmo" study study.json --store s.db --json --draws 20 >out 2>err
    [ $? -eq 2 ] || fail "other results: exit $?"
    grep -q '^dynmo: a result of 2 bytes is not one of a point$' err || fail "other results: $(cat err)"
fi

subject=study
refuse 2 "--threads: 0 is outside [1, 4096]" study.json --threads 0
echo text >text.db
refuse 2 'text.db: not a SQLite file' study.json --store text.db
exit "$failed"
