# The main job end to end: the shipped trace through import, simulate, report and export; what the
# pages show of it; and every way for a study to be wrong.
# usage: simulate.sh DYNMO, in tests/
root=$(cd .. && pwd)
. cli/expect.sh

study() { # study TEXT: a study of the shipped trace with the text after its pipeline
    printf '{"schema":"dynmo-study/1","trace":"t.db","pipeline":{"stages":4}%s}' "$1" >s.json
}

study '' && mv s.json s0.json
"$dynmo" import csv "$root/traces/recorded/gpt-freezing-cpu.csv.gz" -o t.db >/dev/null 2>&1 ||
    fail 'import of the shipped trace'

# The answer that the pages show, line by line.
"$dynmo" simulate "$root/models/studies/freezing.json" --trace t.db --store t.db >answer 2>err ||
    fail "simulate: $(cat err)"
[ ! -s err ] || fail "simulate says: $(cat err)"
while IFS= read -r line; do
    grep -qhxF -- "$line" "$root/README.md" "$root/analysis/SIMULATING.md" || fail "no page shows: $line"
done <answer

# And its second answer, up to the inputs and without the explanation of the columns.
"$dynmo" simulate "$root/models/studies/llama-freezing.json" >dynamic || fail 'a study of a model'
sed '/^Inputs$/,$d; /^iteration: /d; /^imbalance: /d' dynamic | while IFS= read -r line; do
    grep -qhxF -- "$line" "$root/README.md" "$root/analysis/SIMULATING.md" || { echo "no page shows: $line"; exit 1; }
done || failed=1

# No split is there that is of an iteration after the last.
refuse 2 "t.db: --iteration 240: row 'partition on-change' has 10 to 239" \
    export megatron t.db --row 'partition on-change' --iteration 240

# A split that the answer names is the one that is exported, under the same iteration.
grep -A 1 '^partition on-change  *from 10: ' answer | grep -q ' from 32: 5 3 3 5$' || fail 'no split from 32'
expect 0 '{"num_stages":4,"parts":[0,5,8,11,16]}' '' \
    export deepspeed t.db --row 'partition on-change' --iteration 32 --json --split-only

# A split that is given, without and with embedding and head counted; the executor takes it as well.
printf '{"schema":"dynmo-study/1","trace":"t.db","pipeline":{"stages":4,"layers_per_stage":[4,4,3,3]}}' >given.json
"$dynmo" simulate given.json --json >given || fail 'a split that is given'
python3 - <<'END' || fail 'the split that is given is not played'
import json
rows = {row['label']: row for row in json.load(open('given'))['rows']}
assert rows['given']['start_first_layer'] == [0, 5, 9, 12, 16]
assert rows['given']['total_ns'] == rows['even']['total_ns'] and 'tuned' in rows
END
sed 's/4,4,3,3/5,3,3,5/' given.json >counted.json
"$dynmo" simulate counted.json --json | grep -q '"label":"given".*"start_first_layer":\[0,5,8,11,16\]' ||
    fail 'a split with embedding and head'
"$dynmo" run counted.json --row given --iterations 3 | grep -q '^iterations: 3 of 3' || fail 'run: a split that is given'
sed 's/4,4,3,3/4,4,4,3/' given.json >wrong.json
# A split that no row takes is said to be none's.
sed 's/}$/,"balancing":[{"balancer":"even"}]}/' given.json >untaken.json
"$dynmo" simulate untaken.json | grep -q 'pipeline.layers_per_stage.used *by no row: only the balancer .given. takes it' ||
    fail 'a split that no row takes'
refused='wrong.json: pipeline.layers_per_stage: 15 layers in 4 stages, where there are 14 in 4'
expect 2 '' "dynmo: $refused" simulate wrong.json
study ',"balancing":{"balancer":"given"}'
expect 2 '' "dynmo: s.json: given: the balancer given needs a split: a study's pipeline.layers_per_stage" simulate s.json

# A framework that cannot move layers is launched again: that is paid whenever layers move, and weighed.
for relaunch in 0 1000000000 100000000000; do
    printf '{"schema":"dynmo-study/1","trace":"t.db","pipeline":{"stages":4},"training":{"relaunch_ns":%s},"balancing":[{"balancer":"partition","policy":"every:20"},{"balancer":"partition","policy":"shadow"}]}' \
        $relaunch >r.json
    "$dynmo" simulate r.json --json >"relaunch.$relaunch" || fail "a relaunch of $relaunch ns"
done
python3 - <<'END' || fail 'relaunching is not paid, or not weighed'
import json
always, shadow = zip(*(json.load(open(f'relaunch.{ns}'))['rows'] for ns in (0, 10**9, 10**11)))
moves = always[0]['rebalances']
assert moves > 2 and [row['rebalances'] for row in always] == [moves] * 3
assert [row['migration_ns'] - always[0]['migration_ns'] for row in always] == [0, moves * 10**9, moves * 10**11]
assert shadow[0]['rebalances'] >= shadow[1]['rebalances'] > shadow[2]['rebalances'] == 0
END

# The trace's own store is a plain file again, which a read-only folder lets one read.
[ "$(od -An -tu1 -j18 -N1 t.db | tr -d ' ')" = 1 ] || fail 'a store that is left in WAL mode'

# The same bytes with and without a store, and as JSON twice.
"$dynmo" simulate "$root/models/studies/freezing.json" --trace t.db | cmp -s - answer ||
    fail 'the answer depends on --store'
"$dynmo" simulate "$root/models/studies/freezing.json" --trace t.db --json >one.json
"$dynmo" simulate "$root/models/studies/freezing.json" --trace t.db --json | cmp -s - one.json ||
    fail 'two runs differ'
# Equation 1 of the recorded loads of the first iteration, by its definition.
"$dynmo" show t.db --loads --iterations 10:10 --json >loads.json || fail 'loads'
python3 - <<'END' || fail 'Equation 1 is not that of the loads'
import json
layers = json.load(open('loads.json'))['layers']
for row in json.load(open('one.json'))['rows']:
    if not row['executable']: continue
    cuts = row['start_first_layer']
    stages = [layers[begin:end] for begin, end in zip(cuts, cuts[1:])]
    forward = [sum(layer['forward_ns'] for layer in stage) for stage in stages]
    backward = [sum(layer['backward_input_ns'] + layer['backward_weight_ns'] for layer in stage) for stage in stages]
    p, f, b = len(stages), sum(forward) / len(stages), sum(backward) / len(stages)
    printed = (p * p - 2 * p) * b / (p * (p * f + (2 * p - 2) * b))
    unequal = 1 - (f + b) * p / (p * max(forward) + (2 * p - 2) * max(backward))
    assert abs(row['first']['published_eq1_ratio'] - printed) < 1e-8, row['label']
    assert abs(row['first']['published_eq1_unequal_ratio'] - unequal) < 1e-8, row['label']
END
grep -q '"schema":"dynmo-simulation/1"' one.json || fail 'JSON without its schema'

# Every key of a study with its default, which is the one that a result lists as assumed.
"$dynmo" simulate --keys >keys || fail 'the list of keys'
grep -qx 'dynamism.change_ratio: number in \[0.001, 1000\]; default 0.25' keys || fail 'a key that is not listed'
"$dynmo" simulate s0.json --json | grep -q '"name":"dynamism.change_ratio","value":"0.25","origin":"assumed"' || fail 'another default'

# Report and export of what was recorded.
"$dynmo" report t.db -o report.html || fail 'report'
grep -q '<h1>freezing GPT, 4 stages</h1>' report.html || fail 'report without its title'
sed -n '/<pre>/,/<.pre>/p' report.html | sed 's/.*<pre>//; s/&#39;/'"'"'/g; s/&lt;/</g; s/&gt;/>/g; /<.pre>/d' | cmp -s - answer ||
    fail 'the report shows another answer'
if grep -qE 'src=|href="http' report.html; then fail 'the report refers to something outside'; fi
"$dynmo" export perfetto t.db --row even --iteration 10 -o trace.json || fail 'export perfetto'
[ "$(grep -c '"ph":"X"' trace.json)" -eq $((4 * 16 * 3)) ] || fail 'export: not every op'
if command -v gnuplot >/dev/null; then
    "$dynmo" report t.db --figure timeline | head -n 1 | grep -q '^<svg' || fail 'report --figure'
fi
refuse 2 "--figure: unknown 'load'; known: timeline, bubble, pareto" report t.db --figure load
PATH=/nonexistent "$dynmo" report t.db -o plain.html || fail 'report without gnuplot'
grep -q 'no gnuplot to draw the figures' plain.html || fail 'a report without figures does not say so'

# A wrong question has one answer.
refuse 1 'none.json: No such file or directory' simulate none.json
refuse 2 'dynmo simulate: needs a study; --keys lists what may stand in it' \
    simulate
study ',"balancing":[{"balancer":"partitio"}]'
refuse 2 "s.json: balancing[0].balancer: unknown balancer 'partitio'; did you mean 'partition'?" \
    simulate s.json
study ',"training":{"iterations":1e99}'
refuse 2 's.json: training.iterations: integer 1e+99 exceeds 2^53' simulate s.json
study ',"training":{"iterations":NaN}'
refuse 2 's.json:1: not valid JSON' simulate s.json
study ',"training":{"optimizer_step_ns":1000000000000,"iterations":10000}'
refuse 2 's.json: even: total_ns 10001902918850661 of the run exceeds 2^53 = 9007199254740992' \
    simulate s.json
study ',"training":{"state_bytes_per_parameter":4},"balancing":[{"balancer":"even"}]'
"$dynmo" simulate s.json | grep -q '^  given  *training.state_bytes_per_parameter  4 B$' ||
    fail 'bytes of state per parameter: not among the inputs'
study ',"cluster":{"memory_bytes":1000}'
"$dynmo" simulate s.json >out 2>err
[ $? -eq 3 ] || fail 'memory that nothing fits: exit status'
if [ -s out ] || [ "$(wc -l <err)" -ne 1 ]; then fail 'memory that nothing fits: one message'; fi
printf '{"schema":"dynmo-study/1","trace":"t.db","pipeline":{"stages":17}}' >s.json
refuse 2 's.json: pipeline.stages: 17 stages of 1 chunks need at least 17 layers, there are 16' \
    simulate s.json
printf '{"schema":"dynmo-study/1","trace":{"store":"t.db","first_iteration":240},"pipeline":{"stages":4}}' >s.json
refuse 2 "s.json: trace.first_iteration: 240 is after the trace's last iteration 239" simulate s.json
printf '{"schema":"dynmo-study/1","trace":"none.db","pipeline":{"stages":4}}' >s.json
refuse 1 'none.db: No such file or directory' simulate s.json
# Backwards that nothing splits are played by 1f1b, unless another schedule is asked for.
{
    printf '# dynmo-trace/1\n# microbatches=4\niteration,layer,phase,busy_ns\n'
    for layer in 0 1 2 3; do printf '0,%d,F,1000\n0,%d,BW,2000\n' $layer $layer; done
} >whole.csv
"$dynmo" import csv whole.csv -o whole.db >/dev/null || fail 'import of full backwards'
printf '{"schema":"dynmo-study/1","trace":"whole.db","pipeline":{"stages":2}}' >s.json
"$dynmo" simulate s.json >whole || fail 'a study of full backwards that names no schedule'
grep -q '4 microbatches, 1f1b$' whole || fail "$(cat whole)"
grep -q '^  assumed  *pipeline.schedule  *1f1b, as backwards are not split$' whole || fail 'the schedule: not among the inputs'
printf '{"schema":"dynmo-study/1","trace":"whole.db","pipeline":{"stages":2,"schedule":"zb-h1"}}' >s.json
refuse 2 's.json: even: schedule zb-h1 needs the backward split into B and W, and the costs hold only full backwards; import them with --backward-split or choose gpipe, 1f1b or interleaved-1f1b' \
    simulate s.json
# What disturbs a run: the same bytes for a seed, others for another.
disturbed=',"training":{"iterations":60,"accumulation":2,"step":"post-validation"},"balancing":[{"balancer":"even"}],"disturbance":{"seed":SEED,"op_sigma":0.1,"messages":{"factor":2,"sigma":1,"factor_max":4}}'
study "$(echo "$disturbed" | sed s/SEED/1/)"
"$dynmo" simulate s.json >one || fail 'a disturbed study'
"$dynmo" simulate s.json | cmp -s - one || fail 'a disturbed study twice'
grep -q '^s.json: 60 iterations, 16 layers on 4 stages, 4 microbatches x 2 passes, zb-h1, post-validation$' one ||
    fail 'a disturbed study: title'
study "$(echo "$disturbed" | sed s/SEED/2/)"
"$dynmo" simulate s.json | cmp -s - one && fail 'another seed, the same bytes'
study ',"cluster":{"send":"rendezvous","links":{"shared":true}},"balancing":[{"balancer":"even"}]'
"$dynmo" simulate s.json | grep -q '^  given     cluster.send  *rendezvous$' || fail 'sends by rendezvous'
printf '{"schema":"dynmo-study/1","trace":"t.db","training":{"microbatches":8},"pipeline":{"stages":4,"schedule":"zb-h2"},"cluster":{"send":"rendezvous"},"balancing":[{"balancer":"even"}]}' >s.json
refuse 2 's.json: even: rendezvous deadlock: rank 0 F7 waits to be received by rank 1 F7, behind rank 1 B2; rank 1 B2 waits to be received by rank 0 B2, behind rank 0 F7' \
    simulate s.json
study ',"disturbance":{"links":[{"between":[1,4],"factor":4}]}'
refuse 2 's.json: disturbance.links[0].between[1]: 4 is outside [0, 3]' simulate s.json

# Dynamism, parallelism and ranks that do not go together.
model_study() { # model_study MODEL TEXT: 20 iterations of a model on 6 stages, with the text after it
    printf '{"schema":"dynmo-study/1","model":"%s","hardware":"h100-sxm","pipeline":{"stages":6},"training":{"iterations":20,"microbatches":8}%s}' \
        "$1" "$2" >s.json
}
model_study gpt-dynmo ',"dynamism":{"case":"moe"}'
refuse 2 "s.json: dynamism: case 'moe': the model (gpt2) is dense, it has no experts" simulate s.json
model_study gpt-dynmo ',"dynamism":{"case":"prunning"}'
refuse 2 "s.json: dynamism.case: unknown case 'prunning'; did you mean 'pruning'?" simulate s.json
model_study gpt-dynmo ',"dynamism":{"case":"freezing","seeed":3}'
refuse 2 "s.json: dynamism: unknown key 'seeed'; did you mean 'seed'?" simulate s.json
model_study gpt-dynmo ',"dynamism":{"case":"pruning","final_sparsity":1.5}'
refuse 2 's.json: dynamism.final_sparsity: 1.5 is outside [0, 1]' simulate s.json
model_study gpt-dynmo ',"cluster":{"gpus_per_node":4},"repack":{"kind":"throughput","unit":"node"}'
"$dynmo" simulate s.json >out 2>err
[ $? -eq 2 ] || fail 'whole nodes of a pipeline that does not fill them: exit status'
if [ -s out ] || ! grep -q 'rank_count 6 is no multiple of rank_unit 4' err; then
    fail 'whole nodes of a pipeline that does not fill them: message'
fi
model_study gpt-dynmo ',"sources":{"training.iteration":"measured"}'
refuse 2 's.json: sources.training.iteration: no value of the study whose origin can be said has this path' \
    simulate s.json
model_study gpt-dynmo ',"repack":{"kind":"throughput","use":"replicate"}'
"$dynmo" simulate s.json >out 2>err || fail "replicate: $(cat err)"
grep -q 'assumed *repack.replicate .* gradients of the replicas that one becomes are reduced at no cost' out ||
    fail 'replicate: the reduction that is not charged is not among the inputs'
model_study gpt-dynmo ',"balancing":[{"balancer":"partition","policy":"shadow","repack":{"kind":"coded"}}]'
sed 's/"stages":6/&,"schedule":"chimera"/' s.json >copies.json
refuse 2 'copies.json: pipeline.schedule: chimera keeps two copies of the weights, which studies do not; dynmo schedule plays it' simulate copies.json
sed 's/"stages":6/&,"schedule":"interleaved-1f1b"/; s/"microbatches":8/"microbatches":12/' s.json >chunks.json
refuse 2 "chunks.json: partition shadow repack coded: re-packing 'coded' knows one chunk per rank, not 2" \
    simulate chunks.json --store run.db
model_study gpt-dynmo ',"cluster":{"nodes":1,"gpus_per_node":4}'
refuse 3 's.json: cluster.nodes: data 1 x tensor 1 x context 1 x pipeline 6 need 6 GPUs, 1 nodes of 4 have 4' \
    simulate s.json
model_study gpt-dynmo '' && sed 's/"iterations":20,//' s.json >no.json
sed 's/}}$/},"dynamism":{"case":"freezing"}}/' no.json >s.json
refuse 2 's.json: training.iterations: missing; a case over a model needs to know how long training lasts' \
    simulate s.json
study ',"dynamism":{"case":"sparse-attention"}'
"$dynmo" simulate s.json >out 2>err
if [ $? -ne 2 ] || ! grep -q 'name the model that was traced, trace.model' err; then
    fail 'a case that touches parts of the layers of a trace'
fi
printf '{"schema":"dynmo-study/1","trace":{"store":"t.db","model":"gpt2"},"pipeline":{"stages":4},"dynamism":{"case":"sparse-attention"}}' >s.json
refuse 2 "s.json: trace.model: 'gpt2' has 14 layers with embedding and head, the trace 16 layers" \
    simulate s.json
[ ! -e run.db ] || fail 'something was written'

# Sequences of unlike length over a trace need its model, in the type of number in which it ran.
lengths() { # NAME OF THE MODEL, EXTRA OF TRAINING
    printf '{"schema":"dynmo-study/1","trace":{"store":"%s"%s},"hardware":"cpu-core","training":{"iterations":4%s},"pipeline":{"stages":2},"dynamism":{"case":"lengths","mean_tokens":50},"balancing":{"balancer":"even"}}' \
        "$root/traces/recorded/cpu-early-exit.db.gz" "$1" "$2" >s.json
}
lengths '' ''
"$dynmo" simulate s.json 2>&1 | grep -q 'trace\.model' || fail 'lengths without a model'
lengths ',"model":"gpt-bytes"' ''
refuse 2 "s.json: hardware 'cpu-core' has no flop_per_s for dtype bfloat16" simulate s.json
lengths ',"model":"gpt-bytes"' ',"dtype":"float32"'
"$dynmo" simulate s.json | grep -q '^even ' || fail 'lengths over a trace of a CPU'
lengths '' ',"dtype":"float32"'
refuse 2 "s.json: training.dtype: the times of a trace are as recorded; only a model's depend on it" simulate s.json

# A full disk: one message, exit 1, and the old file stays.
if [ -w /dev/full ]; then
    study ''
    "$dynmo" simulate s.json >/dev/full 2>err
    [ $? -eq 1 ] || fail 'full disk: exit status'
    echo 'dynmo: standard output: No space left on device' | diff - err || fail 'full disk: message'
fi
# A file that may not grow is an error like a full disk.
(
    ulimit -f 64
    refuse 1 'small.db: File too large' simulate s.json --store small.db
    exit $failed
) || failed=1

# Of a link that is given by half the hardware says the rest.
echo '{"schema":"dynmo-study/1","model":"gpt2","hardware":"h100-sxm","training":{"microbatches":8},
 "cluster":{"links":{"inter":{"latency_ns":3}}},"pipeline":{"stages":4,"schedule":"1f1b"}}' >half.json
"$dynmo" simulate half.json >half || fail 'a link given by half'
grep -q 'given  *cluster.links.inter.latency_ns  *3 ns' half || fail 'no latency of half a link'
grep -q 'preset  *cluster.links.inter.bytes_per_s' half || fail 'no rate of half a link'
exit "$failed"
