# Checking runs against plans and against each other: what agrees, what departs and why, what is
# undecided, and what is refused. All runs are of the nominal clock, which no machine's load changes.
# usage: check.sh DYNMO, in tests/
root=$(cd .. && pwd)
. cli/expect.sh

cat >study.json <<'END'
{"schema":"dynmo-study/1","name":"gpt","model":"gpt-dynmo","hardware":"h100-dynmo",
 "cluster":{"links":{"intra":{"latency_ns":20000,"bytes_per_s":100000000000}}},
 "training":{"iterations":40,"sequence_length":2048,"microbatches":16,"layers":24},
 "pipeline":{"stages":4,"schedule":"zb-h1"},
 "balancing":[{"balancer":"partition"}]}
END

# run_into STORE STUDY WORD...: executes a study into a store
run_into() {
    store=$1
    shift
    rm -f "$store"
    "$dynmo" run "$@" --store "$store" >out 2>err || fail "run $*: $(cat err)"
}

# finds CODE CAUSE WORD...: a check exits so, for this cause
finds() {
    code=$1 cause=$2
    shift 2
    "$dynmo" check "$@" --json >found.json 2>err
    found=$?
    [ "$found" -eq "$code" ] || fail "check $*: exit $found instead of $code: $(cat err)"
    grep -q "\"cause\":{\"kind\":\"$cause\"" found.json ||
        fail "check $*: not $cause: $(sed 's/.*"cause"://; s/"notes".*//' found.json)"
}

# says PATTERN: the check before says so
says() {
    grep -q -- "$1" found.json || fail "the check does not say $1: $(cut -c 1-1500 found.json)"
}

"$dynmo" simulate study.json --store plan.db >/dev/null || fail simulate
run_into run.db study.json

# Plan against run, run against run, a prediction against either, and plan against plan.
finds 0 none --plan plan.db --measured run.db
says '"verdict":"agrees"'
finds 0 none --plan run.db --measured run.db
finds 0 none --plan study.json --measured run.db
finds 0 none --plan study.json --measured plan.db:1

# A slow rank. Which causes are found is tested in tests/analysis/test_check.c.
sed 's/"cluster":{/"cluster":{"slow_ranks":[{"rank":1,"speed":0.8}],/' study.json >slow.json
run_into slow.db slow.json
finds 4 straggler-rank --plan plan.db --measured slow.db
says '"rank":1,"factor":1.\(25\|24999\)'
says '"first":{"group":"op","name":"F of stage 1 (rank 1)"'
finds 4 straggler-rank --plan slow.db --measured run.db
finds 0 none --plan slow.db --measured run.db --only-slower

# Another policy decides otherwise.
cat >policy.json <<'END'
{"schema":"dynmo-study/1","name":"freezing","model":"gpt-dynmo","hardware":"h100-dynmo",
 "training":{"iterations":60,"sequence_length":2048,"microbatches":16,"layers":24},
 "pipeline":{"stages":4,"schedule":"zb-h1"},
 "dynamism":{"case":"freezing","start_iteration":5,"last_iteration":55,"interval":5},
 "balancing":[{"balancer":"partition","policy":"every:20"}]}
END
sed 's/every:20/every:30/' policy.json >later.json
"$dynmo" simulate policy.json --store policy.db >/dev/null || fail 'simulate every:20'
run_into later.db later.json
finds 4 decision --plan policy.db --measured later.db
says 'after iteration 19 the run decided nothing, the plan rebalance'
run_into policy_run.db policy.json --slow 1=1.4
finds 4 straggler-rank --plan policy.db --measured policy_run.db

# One of several rows is named.
sed 's/"balancing":.*/"balancing":[{"balancer":"even"},{"balancer":"partition"}]}/' study.json >rows.json
"$dynmo" simulate rows.json --store rows.db >/dev/null || fail 'simulate rows'
finds 0 none --plan rows.db --measured run.db --row partition
finds 4 plan --plan rows.db --measured run.db --row even
refuse 2 "--row: no row 'foo'; --plan has 'partition', --measured has 'partition'" \
    check --plan plan.db --measured run.db --row foo
refuse 2 "rows.db: run 1 has 2 rows; --row says which: 'even', 'partition'" \
    check --plan rows.db --measured run.db

# A plan file, with the costs of a trace or a model.
cat >plan.json <<'END'
{"schema":"dynmo-plan/1","first_layer":[0,3,9,12,16],"chunks":1,"placement":"interleaved",
 "schedule":"1f1b","microbatches":8,"stage_ranks":[0,2,1,3],"data_parallel":2,
 "embedding":false,"head":false}
END
"$dynmo" import csv "$root/traces/recorded/gpt-freezing-cpu.csv.gz" -o costs.db >/dev/null 2>&1 ||
    fail 'import of the shipped trace'
run_into planned.db plan.json --trace costs.db --iterations 20
finds 0 none --plan plan.json --trace costs.db --iterations 20 --measured planned.db
says '"verdict":"agrees"'
run_into planned_slow.db plan.json --trace costs.db --iterations 20 --slow 2=1.2
finds 4 straggler-rank --plan plan.json --trace costs.db --iterations 20 --measured planned_slow.db
says '"rank":2,"factor":1.\(2\|19999\)'

# A run that fails is checked as far as it went.
cat >tiny.json <<'END'
{"model_type":"gpt2","n_layer":4,"n_embd":16,"n_head":2,"n_positions":32,"vocab_size":256}
END
cat >wild.json <<'END'
{"schema":"dynmo-study/1","name":"tiny","model":"tiny.json","hardware":"cpu-core",
 "training":{"iterations":200,"sequence_length":16,"microbatches":4,"dtype":"float32"},
 "pipeline":{"stages":2,"schedule":"zb-h1"},"balancing":[{"balancer":"even"}],
 "execution":{"text":"study.json","learning_rate":900,"clip_norm":0,"weight_decay":90}}
END
"$dynmo" run wild.json --device cpu --clock nominal --store wild.db >out 2>err &&
    fail 'a run that diverges'
finds 5 none --plan wild.db --measured wild.db
says 'is failed: only its [0-9]* iterations are compared'

# What the device computes is held up, too: four times as long is beyond what any load does.
sed 's/,"learning_rate.*/}}/; s/"iterations":200/"iterations":20/' wild.json >tame.json
run_into tame.db tame.json --device cpu --clock nominal
run_into held.db tame.json --device cpu --clock nominal --slow 1=8
finds 4 straggler-rank --plan tame.db --measured held.db --tolerance 90%
says '"cause":{"kind":"straggler-rank","rank":1,'

# What is written for people.
"$dynmo" check --plan plan.db --measured slow.db >words
[ $? -eq 4 ] || fail 'exit code with words'
grep -q '^most likely cause (straggler-rank): rank 1 is a straggler' words || fail "$(cat words)"

grep -q 'change: median of the pairs. changes' words || fail 'the table does not say what a change is'

# Recorded traces: layer by layer against one another, by stages beside a plan. record NAME SEED SLOW [RANKS [LONG
# [FIRST]]]: six layers on some ranks, four microbatches, 2 % of noise, layer 3 slower by a factor, microbatch 0 longer by
# another, iterations counted from FIRST.
record() {
    awk -v seed="$2" -v slow="$3" -v ranks="${4:-1}" -v long="${5:-1}" -v begin="${6:-0}" 'BEGIN {
        srand(seed)
        print "# dynmo-trace/1\n# device=cpu\niteration,microbatch,layer,phase,rank,start_ns,span_ns,busy_ns"
        for (i = begin; i < begin + 30; i++) for (m = 0; m < 4; m++) for (l = 0; l < 6; l++) {
            rank = int(l * ranks / 6)
            factor = (l == 3 ? slow : 1) * (m == 0 ? long : 1) * 1000000
            forward = int(factor * (0.96 + 0.08 * rand())); backward = int(2 * factor * (0.96 + 0.08 * rand()))
            printf "%d,%d,%d,F,%d,%d,%d,%d\n", i, m, l, rank, t, forward, forward; t += forward
            printf "%d,%d,%d,BW,%d,%d,%d,%d\n", i, m, l, rank, t, backward, backward; t += backward
        }
    }' >"$1.csv"
    rm -f "$1.db"
    "$dynmo" import csv "$1.csv" -o "$1.db" >/dev/null 2>&1 || fail "import of $1"
}
record one 1 1
record other 2 1
record slow_layer 3 1.5
finds 0 none --plan one.db --measured other.db
finds 4 ops-of-some-stages --plan one.db --measured slow_layer.db:slow_layer
cp run.db both.db
"$dynmo" import csv slow_layer.csv -o both.db >/dev/null 2>&1 || fail 'a trace beside a run'
finds 4 ops-of-some-stages --plan one.db --measured both.db:slow_layer
says '"summary":"op times changed on some layers: F of layer 3, BW of layer 3"'
says '"notes":\[\]'
grep -o '"verdict":"departs"' found.json | grep -c . | grep -qx 5 || fail 'more departs than layer 3 and the iteration'
cat >halves.json <<'END'
{"schema":"dynmo-study/1","trace":"one.db","cluster":{"nodes":1,"gpus_per_node":2},
 "pipeline":{"stages":2,"schedule":"1f1b"},"balancing":[{"balancer":"even"}]}
END
record slow_half 4 1.5 2
finds 4 straggler-rank --plan halves.json --measured slow_half.db --ignore iteration,idle # ranks waited in turn
says '"name":"F of stage 1 (rank 1)"'

# What ran on other ranks than planned has op times and no stragglers.
finds 0 none --plan halves.json --measured other.db
says 'ranks recorded: 1, in the plan: 2'
finds 4 ops-of-some-stages --plan halves.json --measured slow_layer.db
says '"name":"F of stage 1",'
says '"name":"work of an iteration"'
finds 4 ops-of-some-stages --plan slow_layer.db --measured halves.json
sed 's/"stages":2/"stages":2,"layers_per_stage":[2,4]/; s/even/given/' halves.json >uneven.json
finds 0 none --plan uneven.json --trace slow_half.db --measured slow_half.db
says 'its layers ran on other ranks'

# A trace against what a plan makes of it departs in nothing: with a long microbatch, wherever its numbers begin.
record long 5 1 2 3
record steps 6 1 2 1 7
cat >split.json <<'END'
{"schema":"dynmo-plan/1","first_layer":[0,3,6],"chunks":1,"placement":"interleaved","schedule":"1f1b",
 "microbatches":4,"stage_ranks":[0,1],"data_parallel":1,"embedding":false,"head":false}
END
finds 0 none --plan split.json --trace long.db --measured long.db --ignore iteration,idle
says '"source":"split.json, the plan as simulated"'
says '"name":"F of stage 1 (rank 1)"'
finds 0 none --plan split.json --trace steps.db --measured steps.db --ignore iteration,idle
says '"iterations":30,"warmup":0'
sed 's/one.db/steps.db/' halves.json >late.json
"$dynmo" simulate late.json --store late.db >/dev/null || fail 'simulate from iteration 7 on'
run_into late_run.db split.json --trace steps.db --record late_trace.db
for late in late.db late_run.db; do
    finds 0 none --plan "$late" --measured steps.db --ignore iteration,idle
    says '"iterations":30,"warmup":0'
done
finds 0 none --plan late_run.db --measured late_trace.db
says '"iterations":30,"warmup":0'

# Too few iterations.
sed 's/"iterations":40/"iterations":5/' study.json >few.json
run_into few.db few.json
finds 5 none --plan plan.db --measured few.db
says '"verdict":"undecided"'
grep -q 'undecided' err || fail "no word about what is undecided: $(cat err)"

# What cannot be compared.
subject=check
sed 's/"layers":24/"layers":20/' study.json >other.json
"$dynmo" check --plan other.json --measured run.db >out 2>err
[ $? -eq 2 ] || fail 'other layers'
grep -q 'not the same training: .* layers in other.json' err || fail "other layers: $(cat err)"
refuse 2 'dynmo check: --plan is needed' --measured run.db
refuse 2 'dynmo check: --measured is needed' --plan plan.db
refuse 1 '--plan none.db: No such file' --plan none.db --measured run.db
refuse 2 '--tolerance 0 is outside (0 %, 100 %); 5% and 0.05 are the same' \
    --plan plan.db --measured run.db --tolerance 0
refuse 2 '--tolerance 1000% is outside (0 %, 100 %); 5% and 0.05 are the same' \
    --plan plan.db --measured run.db --tolerance 1000%
refuse 2 "--ignore: unknown 'ops'; did you mean 'op'?" --plan plan.db --measured run.db --ignore ops
"$dynmo" import csv "$OLDPWD/../traces/recorded/gpt-freezing-cpu.csv.gz" -o trace.db >/dev/null 2>&1
refuse 2 'plan.json is a plan: --trace, or --model and --hardware, have to say how long its ops take' \
    --plan plan.json --measured planned.db
refuse 2 'plan.db: no run '"'9'" --plan plan.db:9 --measured run.db
refuse 2 "--warmup 40 leaves none of the 40 iterations compared" \
    --plan plan.db --measured run.db --warmup 40
printf '# dynmo-trace/1\niteration,layer,phase,busy_ns\n0,0,F,0\n' >idle.csv
"$dynmo" import csv idle.csv -o idle.db >/dev/null 2>&1 || fail 'import of a trace without time'
refuse 2 "idle.db, trace 'idle': iteration 0 takes no time" --plan idle.db --measured one.db
refuse 2 "one.db: no trace 'none'; did you mean 'one'?" --plan one.db:none --measured other.db
refuse 2 "costs.db, trace 'gpt-freezing-cpu' has 16 layers, the plan of the other side 26" \
    --plan costs.db --measured run.db

# What a layer stops doing departs: its backward, where it is frozen.
"$dynmo" check --plan "$root/traces/recorded/cpu-dense.db.gz" \
    --measured "$root/traces/recorded/cpu-freezing.db.gz" >frozen 2>/dev/null
[ $? -eq 4 ] || fail 'layers that are frozen: exit code'
grep -q '^DEPARTS, first the W of layer 0 from iteration 15 on: 0 ns instead' frozen || fail "frozen: $(cat frozen)"
exit $failed
