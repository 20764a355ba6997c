# `dynmo study`: error bars, groups, what to measure; refusals of what cannot be drawn.
# Usage: study_certainty.sh DYNMO
root=$(cd .. && pwd)
plain=$(pwd)/models/plain-h100.json # without overheads of kernels and the host
. cli/expect.sh
cp "$plain" h100.json
subject=study

# study NAME MORE: a study of four points with more members after it.
study() {
    cat >"$1.json" <<END
{"schema":"dynmo-study/1","name":"four","model":"gpt2","hardware":"h100.json",
 "cluster":{"gpus":8,"price_per_gpu_hour":2,"price_currency":"EUR","price_date":"2026-11-01"$2},
 "training":{"global_batch":64,"sequence_length":1024,"microbatch_size":1,"data_parallel":"fill",
             "tokens":1000000000$3},
 "pipeline":{"stages":2,"schedule":"1f1b"},
 "vary":{"training.microbatch_size":[1,2],"pipeline.schedule":["1f1b","zb-h1"]}$4}
END
}

# has TEXT WORD...: the command succeeds, and a line of its output has the text.
has() {
    wanted=$1
    shift
    "$dynmo" study "$@" >out 2>err || { fail "dynmo study $*" && cat err; }
    grep -q -- "$wanted" out || { fail "dynmo study $*: no '$wanted'" && cat out; }
}

study plain '' '' ''
has '^128 draws of 11 uncertain inputs (seed 1) at the best 32 points' plain.json
has 'hardware.efficiency.gemm of h100-sxm' plain.json
has '0.65 x 0.8 .. 1.15, triangular; assumed: ' plain.json
has '^Not in the error bars, though assumed: ' plain.json
has '^40 draws of .*(seed 9)' plain.json --draws 40 --seed 9
has '^What to measure next' plain.json
has '"what_to_measure":\[{"name":"cost model of ' plain.json --json
has '"certainty":{"draws":128,' plain.json --json
has '"certainty":null' plain.json --json --draws 0
"$dynmo" study plain.json --draws 0 2>err | grep -q 'How sure' && fail "--draws 0 draws"

# The same bytes on any number of threads, others with another seed.
for threads in 1 2 5; do
    "$dynmo" study plain.json --threads $threads >out.$threads 2>err || cat err
    cmp -s out.1 out.$threads || fail "$threads threads give other bytes"
    "$dynmo" study plain.json --json --threads $threads >json.$threads 2>err || cat err
    cmp -s json.1 json.$threads || fail "$threads threads give other JSON"
done
"$dynmo" study plain.json --json --seed 2 >json.seed 2>err
cmp -s json.1 json.seed && fail "another seed gives the same draws"

# With nothing uncertain every draw is the point as it is.
study certain '' '' ',"uncertainty":{"assumed":false,"model_error":0}'
has '^128 draws of 0 uncertain inputs' certain.json
has '^No input is uncertain' certain.json

# The study as written is not drawn beside a point that is like it.
cat >twin.json <<'END'
{"schema":"dynmo-study/1","name":"twin","model":"gpt2","hardware":"h100.json","cluster":{"gpus":8},
 "training":{"global_batch":64,"sequence_length":1024,"microbatch_size":1,"data_parallel":"fill"},
 "pipeline":{"stages":2,"schedule":"1f1b"},
 "alternatives":{"x":{"same":{"pipeline.stages":2,"pipeline.schedule":"1f1b"},
                      "other":{"pipeline.stages":4,"pipeline.schedule":"zb-h1"}}}}
END
has '^ .* 0  same .* as written$' twin.json

# Declared ranges stand before assumed ones; a factor goes with an axis.
study declared '' '' ',"uncertainty":{"draws":30,"ranges":{
  "hardware.efficiency.gemm":[0.5,0.7],"training.microbatch_size":{"factor":[1,2]},
  "cluster.price_per_gpu_hour":[1.5,4]}}'
has '0.65; 0.5 .. 0.7, uniform; declared' declared.json
has '1 .. 2 x 1 .. 2, uniform; declared' declared.json
has 'cluster.price_per_gpu_hour' declared.json --rank-by cost

# refuses CODE MESSAGE RANGES: what stands in uncertainty, of a whole study
refuses() {
    code=$1
    message=$2
    study wrong '' '' ',"uncertainty":{'"$3"'}'
    "$dynmo" study wrong.json >out 2>err
    got=$?
    [ "$got $(cat err)" = "$code dynmo: wrong.json: $message" ] || fail "$3: exit $got: $(cat err)"
}
refuses 2 'uncertainty.ranges.hardware.efficiency.gemm: needs one of '"'factor' and 'log'" \
    '"ranges":{"hardware.efficiency.gemm":{"log":[0.1,0.2],"factor":[0.9,1]}}'
for factor in 0,0 1,200; do
    study wrong '' '' ',"uncertainty":{"ranges":{"hardware.efficiency.gemm":{"factor":['$factor']}}}'
    "$dynmo" study wrong.json >out 2>err
    got=$?
    if [ $got -ne 2 ] || ! grep -q 'gemm: .* by this factor is .*, outside \[1e-06, 1\]$' err; then
        fail "factor $factor: exit $got: $(cat err)"
    fi
done
refuses 2 'uncertainty.draws: 5 draws are neither 0 (no error bars) nor in [20, 10000]' '"draws":5'
refuses 1 'uncertainty.calibration: none.csv: No such file or directory' '"calibration":"none.csv"'

# A calibration is a table of runs, of any model: its own source of bars, and no ranges of hardware beside it. Here one
# run that took 1.5 times as long as predicted.
cat >slow.csv <<'END'
model,hardware,gpus,gbs,mbs,seq,tp,ep,recompute,measured_ms
mixtral-8x7b,h100-sxm,64,256,1,4096,2,8,full,1
END
ns=$("$dynmo" validate slow.csv --draws 0 --json | grep -o '"predicted_ns":[0-9]*' | sed 's/.*://')
sed -i "2s/1\$/$(awk -v ns="$ns" 'BEGIN { print 1.5e-6 * ns }')/" slow.csv
cat >slow.json <<'END'
{"schema":"dynmo-study/1","name":"slow","model":"mixtral-8x7b","hardware":"h100-sxm","cluster":{"gpus":64,"memory_bytes":0},
 "training":{"global_batch":256,"sequence_length":4096,"microbatch_size":1,"tensor_parallel":2,"expert_parallel":8,
  "data_parallel":"fill","recompute":"full"},
 "pipeline":{"stages":1,"schedule":"1f1b"},"vary":{"pipeline.stages":[1,2]}}
END
sed 's/"vary"/"uncertainty":{"calibration":"slow.csv"},"vary"/' slow.json >taught.json
rate_of() { "$dynmo" study "$1" --json | grep -o '"tokens_per_s":[0-9.]*' | sed -n '1s/.*://p'; }
awk -v plain="$(rate_of slow.json)" -v taught="$(rate_of taught.json)" \
    'BEGIN { exit !(plain > 1.3 * taught && plain < 1.6 * taught) }' ||
    fail "a table of runs: $(rate_of slow.json) and $(rate_of taught.json) tokens/s"
has '%  calibration$' taught.json
has '"calibration":true' taught.json --json
has '"calibration_runs":1,"calibration_refused":0,"points_beyond_calibration":0' taught.json --json
# Rows that cannot be modelled are counted; a machine that no run used is another one, and is said.
{ cat slow.csv; tail -n 1 slow.csv | sed 's/mixtral-8x7b/no-such-model/'; } >partly.csv
sed 's/slow.csv/partly.csv/' taught.json >partly.json
has '"calibration_runs":1,"calibration_refused":1,' partly.json --json
"$dynmo" study partly.json | tr '\n' ' ' | grep -q 'corrected by 1 measured run; 1 could not be modelled: no-such-model' ||
    fail 'a row that cannot be modelled is not told'
sed 's/"hardware":"h100-sxm"/"hardware":{"base":"h100-sxm","efficiency":{"gemm":0.3}}/' taught.json >changed.json
has '"points_beyond_calibration":2' changed.json --json
has 'older or uncompiled software' changed.json
has 'experts that a framework has just begun with: 2.8)' slow.json
sed 's/mixtral-8x7b/llama-3-8b/;s/"expert_parallel":8,//' slow.json >dense.json
has 'older or uncompiled software: up to 2.2 times as long)' dense.json
# What a table names counts as the table does for who goes on with a store.
cp "$root/models/hardware/h100-sxm.json" here.json
sed 's/h100-sxm/here.json/' slow.csv >named.csv
sed 's/slow.csv/named.csv/' taught.json >named.json
"$dynmo" study named.json --store kept.db >first || fail 'a table that names a file'
sed -i 's/"gemm": *[0-9.]*/"gemm": 0.4/' here.json
"$dynmo" study named.json --store kept.db >second || fail 'a table whose file has changed'
"$dynmo" study named.json >fresh
cmp -s second fresh || fail 'a store answers for a file that has changed'
cmp -s first second && fail 'a changed file changes nothing'
# Runs that say no hardware ran on the study's.
cut -d, -f1,3- slow.csv >nowhere.csv
sed 's/slow.csv/nowhere.csv/' taught.json >nowhere.json
[ "$(rate_of nowhere.json)" = "$(rate_of taught.json)" ] || fail 'runs without a hardware'
sed 's/"hardware":"h100-sxm"/"hardware":{"base":"h100-sxm","efficiency":{"gemm":0.3}}/' nowhere.json >altered.json
refuse 2 'nowhere.csv: no column says the hardware' altered.json
sed 's/mixtral-8x7b/no-such-model/' slow.csv >unknown.csv
sed 's/slow.csv/unknown.csv/' taught.json >unknown.json
refuse 2 "unknown.csv: no run can be modelled: no-such-model: No such file or directory; and no shipped model is named 'no-such-model'" unknown.json
sed 's/slow.csv/missing.csv/' taught.json >no_file.json
refuse 1 'no_file.json: uncertainty.calibration: missing.csv: No such file or directory' no_file.json

# refuse_study MESSAGE CLUSTER TRAINING MORE: exit code 2.
refuse_study() {
    study refused "$2" "$3" "$4"
    refuse 2 "$1" refused.json
}
refuse_study "refused.json: uncertainty.ranges.training.microbatch_size: the axis 'training.microbatch_size' sets it; give a \"factor\" of its values" \
    '' '' ',"uncertainty":{"ranges":{"training.microbatch_size":[1,2]}}'
refuse_study 'refused.json: uncertainty.ranges.hardware.efficiency.gemm: -3: h100.json: efficiency.gemm: -3 is outside [1e-06, 1]' \
    '' '' ',"uncertainty":{"ranges":{"hardware.efficiency.gemm":[-3,-1]}}'
refuse 2 '--draws: 5 draws are neither 0 (no error bars) nor in [20, 10000]' plain.json --draws 5
refuse 2 '--draws: 1000000000 is outside [0, 10000]' plain.json --draws 1000000000

# How likely a deadline is kept is told where the point was drawn.
study late '' '' ',"uncertainty":{"draws":40}'
"$dynmo" study late.json --deadline 1000d | tr '\n' ' ' | grep -q 'keeps the deadline with a probability of 100 %' ||
    fail 'a deadline that is kept'
"$dynmo" study late.json --deadline 1000d --draws 0 | grep -q 'keeps the deadline' && fail 'a deadline without draws'

# What leaves little memory is told with how likely it fits, and what one would launch instead.
"$dynmo" study --model llama-3.1-8b --gpu h100-sxm --gpus 8 --global-batch 128 --sequence-length 8192 --draws 0 --top 1 \
    -o near.json >near 2>err || fail "a study of points near the limit: $(cat err)"
tr '\n' ' ' <near | grep -q 'it fits with a probability of 2[0-9] %; the first with 90 % is at rank [0-9]* (+[0-9.]* %), point' ||
    fail "how likely it fits: $(head -n 12 near)"
exit $failed
