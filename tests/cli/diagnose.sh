# `dynmo diagnose`: the right answer where the truth was put in, on the shipped recordings and from
# counts of tokens; what it prints; and every way to ask wrongly.
# usage: diagnose.sh DYNMO, in tests/
root=$(cd .. && pwd)
plain=$(pwd)/models/plain-h100.json # without overheads of kernels and the host
. cli/expect.sh
cp "$plain" h100.json
subject=diagnose

# run NAME.db LOAD [ITERATIONS [STEP [PARAMETERS]]]: a trace of 16 layers, where layer l of iteration i
# takes LOAD, an expression of awk in i, l and the noise n(), uniform in [0, 1).
run() {
    awk -v iterations="${3:-80}" -v step="${4:-1}" -v parameters="${5-1000000}" '
        function n() { x = (x * 16807) % 2147483647; return x / 2147483647 }
        function abs(a) { return a < 0 ? -a : a }
        BEGIN {
            x = 12345
            print "# dynmo-trace/1"
            print "# microbatches=8"
            print "iteration,layer,phase,busy_ns" (parameters != "" ? ",parameters" : "")
            for (i = 0; i < iterations; i++)
                for (l = 0; l < 16; l++) {
                    load = int('"$2"')
                    end = parameters != "" ? "," parameters : ""
                    print i * step "," l ",F," int(load / 3) end
                    print i * step "," l ",BW," load - int(load / 3) end
                }
        }' >"${1%.db}.csv"
    "$dynmo" import csv "${1%.db}.csv" -o "$1" >/dev/null || fail "import of $1"
}

# answers GROUND WORD...: the verdict and its ground of a diagnosis.
answers() {
    wanted=$1
    shift
    found=$("$dynmo" diagnose "$@" --json 2>&1 |
        sed 's/.*"verdict":"\([^"]*\)","ground":"\([^"]*\)".*/\1, \2/')
    [ "$found" = "$wanted" ] || fail "diagnose $*: $found, expected $wanted"
}

run static.db 'l < 4 ? 4000000 : 1000000'
run noise.db '500000 + 1000000 * n()' 200
run uneven.db '(l < 2 ? 4400000 : 400000) + 1200000 * n()' 120
run drift.db '1000000 + 60000 * (50 - abs(i - 10 * l) > 0 ? 50 - abs(i - 10 * l) : 0)' 160
run steps.db '(int(l / 4) == int(i / 20) ? 5000000 : 1000000) + 10000 * n()'
run short.db '(l < 8 ? 5000000 - 400000 * i : 1000000) + 10000 * n()' 10
run alike.db '1000000 + 50000 * i'
run sampled.db '(int(l / 4) == int(i / 20) ? 5000000 : 1000000) + 10000 * n()' 80 25
run bare.db '(int(l / 4) == int(i / 20) ? 5000000 : 1000000) + 10000 * n()' 80 1 ''

answers 'not worthwhile, noise' static.db --stages 4
answers 'not worthwhile, noise' noise.db --stages 4
answers 'not worthwhile, one-split' uneven.db --stages 3
answers 'worthwhile, gain' drift.db --stages 4
answers 'worthwhile, gain' steps.db --stages 4
answers 'undecidable, short' short.db --stages 4
answers 'undecidable, uniform' alike.db --stages 4
answers 'worthwhile, gain' sampled.db --stages 4
answers 'undecidable, stages' steps.db --stages 16
"$dynmo" diagnose steps.db --stages 16 | grep 'dynmo export' && fail 'stages that were recorded are exported as a split'
answers 'undecidable, coarse' noise.db --stages 5
answers 'undecidable, state-unknown' bare.db --stages 4
answers 'worthwhile, gain' bare.db --stages 4 --layer-state 16000000
answers 'not worthwhile, proven' steps.db --stages 4 --worthwhile 1000%
answers 'not worthwhile, proven' steps.db --stages 1


# Data or layers: microbatches of drawn length, ops of drawn noise, or a first stage that is too long.
microbatches() { # microbatches NAME.db TIME: an op's time in l, the microbatch's length s and a noise n() of its own
    awk 'function n() { x = (x * 16807) % 2147483647; return x / 2147483647 }
        BEGIN {
            x = 4711
            print "# dynmo-trace/1\n# microbatches=8\niteration,layer,microbatch,phase,busy_ns,parameters"
            for (i = 0; i < 40; i++) for (m = 0; m < 8; m++) {
                s = 0.5 + n()
                for (l = 0; l < 8; l++) {
                    print i "," l "," m ",F," int(1000000 * ('"$2"')) ",1000"
                    print i "," l "," m ",BW," int(2000000 * ('"$2"')) ",1000"
                }
            }
        }' >"${1%.db}.csv"
    "$dynmo" import csv "${1%.db}.csv" -o "$1" >/dev/null || fail "import of $1"
}
mends() { # mends WANTED FILE
    found=$("$dynmo" diagnose "$2" --stages 4 --json | sed 's/.*"mend_first":"\([a-z]*\)".*/\1/')
    [ "$found" = "$1" ] || fail "diagnose $2 mends $found, expected $1"
}
microbatches lengths.db 's + 0.02 * n()'
microbatches ops.db '0.5 + n()'
microbatches both.db '(l < 2 ? 3 * (i % 20 < 10) + 1 : 3 * (i % 20 >= 10) + 1) * (1 + 0.02 * s)'
mends data lengths.db
mends nothing ops.db
mends layers both.db
"$dynmo" diagnose lengths.db --stages 4 --json | grep -q '"correlation":0\.99' || fail 'lengths hardly correlate'
"$dynmo" diagnose lengths.db --stages 4 | grep -q ' correlate: what differs is length$' || fail 'lengths do not differ'
microbatches nearly.db '1 + 0.01 * s'
"$dynmo" diagnose nearly.db --stages 4 | grep -q ' correlate, but lengths that differ cost little$' || fail 'lengths alike are said to differ'

# A cold first iteration is left out, unless it is asked for, or the next was not recorded.
run cold.db '(i == 0 ? 3 : 1) * (l < 4 ? 4000000 : 1000000) + 10000 * n()'
"$dynmo" diagnose cold.db --stages 4 >cold || fail 'a cold first iteration'
grep -qx 'note: most layers of iteration 0 take [0-9.]* times as long as in the next: it is left out as warm-up (--first 0 keeps it)' cold ||
    fail "a cold first iteration is not told: $(head -n 4 cold)"
grep -q 'tuned  *from 1: 2 2 6 6$' cold || fail "a cold first iteration has a split: $(grep tuned cold)"
"$dynmo" diagnose cold.db --stages 4 --json | grep -q '"iterations":79,.*"cold_iteration":0,"cold_factor":[23]\.' || fail 'JSON of a cold first iteration'
"$dynmo" diagnose cold.db --stages 4 --first 0 --json | grep -q '"iterations":80,' || fail '--first 0 leaves the first out'
"$dynmo" diagnose drift.db --stages 4 --json | grep -q cold_ && fail 'a run that changes is called cold'
run apart.db '(i == 0 ? 3 : 1) * (l < 4 ? 4000000 : 1000000) + 10000 * n()' 80 25
"$dynmo" diagnose apart.db --stages 4 --json | grep -q '"iterations":80,' || fail 'a first sample is left out whose next is far'

# Nothing at all, and next to nothing.
run nothing.db 0
run once.db '1000000 * (1 + l)' 1
answers 'undecidable, uniform' nothing.db --stages 4
answers 'undecidable, short' once.db --stages 4
answers 'undecidable, short' once.db --stages 16
"$dynmo" diagnose nothing.db --stages 4 | grep -qiE '[+ -](nan|inf)( |$)' && fail 'a number that is none'
"$dynmo" diagnose once.db --stages 4 | grep -q 'Too few sampled iterations to tell drift from noise' || fail 'one iteration'

# The recordings that ship with the project; `even` is what they ran under.
for name in dense mod moe pruning sparse-attention; do
    answers 'not worthwhile, noise' "$root/traces/recorded/cpu-$name.db.gz"
done
for name in early-exit freezing; do
    answers 'worthwhile, gain' "$root/traces/recorded/cpu-$name.db.gz"
done

# A store and a compressed one say the same.
gzip -k steps.db
for name in steps.db steps.db.gz; do
    "$dynmo" diagnose $name --stages 4 --json >$name.json || fail "diagnose $name"
done
cmp -s steps.db.json steps.db.gz.json || fail 'a compressed store differs'
mkdir scratch
TMPDIR=$work/scratch "$dynmo" diagnose steps.db.gz --stages 4 >/dev/null || fail 'diagnose in a folder'
[ -z "$(ls scratch)" ] || fail 'a folder is left behind'

# What an engineer reads.
"$dynmo" diagnose steps.db --stages 4 >page || fail 'diagnose'
grep -q '^Dynamic balancing: worthwhile$' page || fail 'page without its verdict'
grep -q "^  Worth it from 1.00 % on. Run '[a-z]* [a-z0-9:.-]*'. The low end of its gain is above" page || fail 'page without its advice'
[ "$(grep -c '^  even  *from 0: 4 4 4 4$' page)" = 1 ] || fail 'page without the split that is set now'
sed -n '/^  echo .*>plan.json$/p' page >./command
sh ./command || fail "$(cat command)"
python3 - <<'END' || fail 'the plan is not the split that is shown'
import json
cuts = json.load(open('plan.json'))['first_layer']
split = next(line for line in open('page') if 'best kept split found   ' in line and 'from' in line).split(':')[1]
assert [b - a for a, b in zip(cuts, cuts[1:])] == [int(n) for n in split.split()], (cuts, split)
END
"$dynmo" diagnose steps.db --stages 4 | sed -n '/^  dynmo export /{s/^  dynmo//p;}' >./command
sh -c "\"$dynmo\" $(cat command)" | grep -q -- '--num-layers 16' || fail "the plan that the page names: $(cat command)"
"$dynmo" diagnose "$root/traces/recorded/cpu-early-exit.db.gz" >page_of_nothing || fail 'early exit'
grep -q ' +0\.00 % ' page_of_nothing || fail 'early exit: no row gains nothing any more'
grep -- '-0\.00' page_of_nothing && fail 'minus nothing'
"$dynmo" diagnose sampled.db --stages 4 | grep -q '; each of 80 stands for 25$' ||
    fail 'no word of the sampling'
"$dynmo" diagnose steps.db --stages 4 | cmp -s - page || fail 'two runs differ'

# Megatron-LM's counts: two stages of two ranks that share four experts. Expert 0 is busy in the first
# stage's layers for twenty samples, then in those of the second, and so on.
counts() { # counts FOLDER: of a model of 16 layers with 4 experts
    mkdir -p "$1/tokens_per_expert"
    for rank in 0 1 2 3; do
        awk -v rank=$rank 'BEGIN {
            for (i = 0; i < 200; i++)
                for (l = 0; l < 8; l++) {
                    layer = l + 8 * int(rank / 2)
                    busy = int(layer / 8) == int(i / 20) % 2 ? 20000 : 1000
                    a = rank % 2 == 0 ? busy + (i * 7 + l) % 5 : 1000
                    printf "{\"iter\":%d,\"block\":\"decoder\",\"layer\":%d,\"tpe\":[[%d,1000]", i * 10, l, a
                    for (m = 1; m < 8; m++) printf ",[%d,1000]", a + m
                    print "]}"
                }
        }' >"$1/tokens_per_expert/rank$rank.jsonl"
    done
}
cat >moe.json <<'END'
{"model_type":"mixtral","hidden_size":1024,"intermediate_size":3584,"num_attention_heads":16,
 "num_hidden_layers":16,"num_key_value_heads":4,"num_local_experts":4,"num_experts_per_tok":2,
 "max_position_embeddings":4096,"vocab_size":32000,"sliding_window":null,"tie_word_embeddings":false}
END
counts run
answers 'worthwhile, gain' run --model moe.json --stages 4 --trace-stages 2 --hardware h100.json
answers 'worthwhile, gain' run/tokens_per_expert --model moe.json --stages 4 --trace-stages 2 --hardware h100.json
answers 'worthwhile, gain' 'run/*/rank[0-3].jsonl' --model moe.json --stages 4 --trace-stages 2 --hardware h100.json
"$dynmo" diagnose run --model moe.json --stages 4 --trace-stages 2 | grep -q '^200 iterations sampled, of 0 to 1990; each of 200 stands for 10$' ||
    fail 'counts: not as many samples as there are'

# Of half the samples expert 0, on rank 0, has 20 of 23 parts of a layer's tokens, else a fourth: the rank has
# (21 / 11.5 + 1) / 2 = 1.413 times the mean, the expert (4 * 20 / 23 + 1) / 2 = 2.239 times.
"$dynmo" diagnose run --model moe.json --stages 4 --trace-stages 2 | grep -A 2 '^Experts: 4 of a layer on 2 ranks' >experts
grep -q '^  the busiest rank has 1\.41 times the mean, over 16 layers' experts || fail "experts: $(cat experts)"
grep -q ': rank 0 of 2 has 1\.41 times the mean; hot experts 0 (2\.2[34] times)$' experts || fail "experts: $(cat experts)"

# Wrong questions.
refuse 2 "--stages is needed: the trace does not say on how many ranks its layers ran" steps.db
# The files of some ranks are missing where layers have no time; in an iteration alone they may have none.
run skipped.db 'l == 3 && i < 2 ? 0 : 1000000 * (1 + l)'
answers 'not worthwhile, noise' skipped.db --stages 4
run half.db 'l < 8 ? 0 : 1000000 * (1 + l)'
missing='half.db: 8 of 16 layers have no time in any pass, layer 0 first: import the files of all ranks'
refuse 2 "$missing" half.db --stages 4
echo '{"schema":"dynmo-study/1","trace":"half.db","hardware":"h100.json","pipeline":{"stages":4}}' >half.json
subject=simulate
refuse 2 "half.json: $missing" half.json
subject=diagnose
refuse 2 "diagnose: pipeline.stages: 17 stages of 1 chunks need at least 17 layers, there are 16" \
    steps.db --stages 17
refuse 2 'schedule interleaved-1f1b puts 2 stages on a rank; a diagnosis needs one' \
    steps.db --stages 4 --schedule interleaved-1f1b
refuse 2 '--trace-stages needs --model, and counts of tokens' steps.db --stages 4 --trace-stages 2
refuse 2 'steps.db:1: holds a zero byte' steps.db --stages 4 --model moe.json
refuse 1 'run: not a regular file' run --stages 4
refuse 2 "--first: counts of tokens (--model) are not in a store" run --model moe.json --stages 4 --first 3
refuse 2 '--model: gpt2 has no experts' run --model gpt2 --stages 4
refuse 2 '--trace-stages: 3 stages do not divide the model'"'"'s 16 layers' \
    run --model moe.json --stages 4 --trace-stages 3
sed 's/"num_local_experts":4/"num_local_experts":3/' moe.json >moe3.json
refuse 2 "run/tokens_per_expert: 2 experts of a rank do not divide the model's 3" \
    run --model moe3.json --stages 4 --trace-stages 2
refuse 2 '--worthwhile -1 is outside (0 %, 10000 %); 5% and 0.05 are the same' steps.db --stages 4 --worthwhile -1
mv run/tokens_per_expert/rank3.jsonl run/tokens_per_expert/rank4.jsonl
refuse 2 'run/tokens_per_expert: 4 files of ranks, the largest is rank 4' \
    run --model moe.json --stages 4 --trace-stages 2
rm run/tokens_per_expert/rank4.jsonl
refuse 2 'run/tokens_per_expert: 3 files are not 2 stages of groups of 2 ranks that share experts' \
    run --model moe.json --stages 4 --trace-stages 2
refuse 2 'run/*/rank[12].jsonl: 2 files of ranks, the largest is rank 2' \
    'run/*/rank[12].jsonl' --model moe.json --stages 4 --trace-stages 2
refuse 2 'none/rank*: no files rank<r>.jsonl' 'none/rank*' --model moe.json --stages 4
mkdir -p other/tokens_per_expert
cp run/tokens_per_expert/rank0.jsonl other/tokens_per_expert
refuse 2 '*/tokens_per_expert/rank0.jsonl: rank 0 occurs twice' '*/tokens_per_expert/rank0.jsonl' --model moe.json --stages 4
mkdir empty
refuse 2 'empty: no files rank<r>.jsonl' empty --model moe.json --stages 4
refuse 2 'steps.csv: not a SQLite file' steps.csv --stages 4
refuse 1 'missing.db: No such file or directory' missing.db --stages 4
exit $failed
