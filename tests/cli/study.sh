# What-if studies: the answer of a small one line by line, the same bytes as JSON twice and by any
# number of threads, studies that are made, and every way for axes to be wrong.
# usage: study.sh DYNMO, in tests/
templates=$(cd ../models/studies/templates && pwd)
plain=$(pwd)/models/plain-h100.json # without overheads of kernels and the host
. cli/expect.sh
cp "$plain" h100.json
subject=study

study() { # study TEXT: a small GPT on 4 stages, with the text after its pipeline
    printf '{"schema":"dynmo-study/1","name":"small","model":"gpt2","hardware":"h100.json","training":{"microbatches":8,"optimizer_step_ns":0,"tokens":1000000000},"pipeline":{"stages":4,"schedule":"1f1b"}%s}' \
        "$1" >s.json
}

# The answer, up to the inputs.
study ',"balancing":[{"balancer":"even"},{"balancer":"tuned"}],"vary":{"pipeline.stages":[2,4,16],"training.microbatches":[8,16]},"cluster":{"memory_bytes":2000000000,"price_per_gpu_hour":2,"price_date":"2026-11-22"}'
"$dynmo" study s.json --draws 0 >out 2>err || fail "study: $(cat err)"
sed '/^Inputs$/,$d' out >answer
cat >wanted <<'EOF'
small: 12 points on 3 axes, 8 feasible, ranked by time, failure-free; beyond what was validated: hidden size 768, not 2048 to 25600

Fastest: point 5 (stages 4, microbatches 8, balancing tuned) trains 1.00B tokens in 14.3 min on 4
GPUs: 1.16M tokens/s, 232 TFLOP/s of the model a GPU (MFU 23.5 %), 0.96 GPU-hours, 1.91 USD; no
split of its layers and no order of ops is more than 19.2 % faster. `dynmo export` takes it to
megatron, megatron-bridge, pytorch, torchtitan, deepspeed.
Held as written, not searched: tensor_parallel, context_parallel, microbatch_size, recompute,
sharding, dtype, chunks, schedule.

rank  point  stages  microbatches  balancing  tokens/s  /GPU     MFU     train  GPUs  GPU-hours  cost      peak      free  bubble_ratio  > bound
   1      5  4       8             tuned         1.16M  291k  23.5 %  14.3 min     4       0.96  1.91  1.32 GiB   557 MiB        37.2 %   19.2 %  *
   2      4  4       8             even           870k  218k  17.5 %  19.2 min     4       1.28  2.55  1.32 GiB   557 MiB        53.1 %   59.4 %
   3      1  2       8             tuned          747k  374k  30.1 %  22.3 min     2       0.74  1.49  1.84 GiB  21.1 MiB        19.4 %   16.9 %  *
   4      0  2       8             even           697k  348k  28.1 %  23.9 min     2       0.80  1.59  1.70 GiB   162 MiB        24.8 %   25.4 %  *

Other training: another global batch, sequence length, token count, dtype, model, data or case
rank  point  stages  microbatches  balancing  tokens/s  /GPU     MFU     train  GPUs  GPU-hours  cost      peak      free  bubble_ratio  > bound
   1      7  4       16            tuned         1.31M  328k  26.4 %  12.7 min     4       0.85  1.70  1.32 GiB   557 MiB        29.3 %   10.0 %  *
   2      6  4       16            even           931k  233k  18.8 %  17.9 min     4       1.19  2.39  1.32 GiB   557 MiB        49.7 %   54.7 %
   3      3  2       16            tuned          782k  391k  31.5 %  21.3 min     2       0.71  1.42  1.84 GiB  21.1 MiB        15.6 %   13.5 %  *
   4      2  2       16            even           724k  362k  29.2 %  23.0 min     2       0.77  1.54  1.70 GiB   162 MiB        21.9 %   22.7 %  *

Infeasible: 4 of 12 points
         4  more stages than layers; point 8: pipeline.stages: 16 stages of 1 chunks need at least 16 layers, there are 14

EOF
diff wanted answer || fail 'the answer of a small study'
grep -q '^  given     cluster.price_date  *2026-11-22$' out || fail 'the date of a price is not among the inputs'

# The same bytes again, and by any number of threads.
"$dynmo" study s.json --draws 0 --json >one.json || fail 'study --json'
"$dynmo" study s.json --draws 0 --json --threads 3 | cmp -s - one.json || fail 'threads change the result'
grep -q '^{"schema":"dynmo-study-result/1","name":"small","tokens":1000000000,"currency":"USD",' one.json ||
    fail 'JSON: the head'
[ "$(grep -o '"point":' one.json | wc -l)" -eq 12 ] || fail 'JSON: not every point'

# All points as CSV: a head, 12 points.
"$dynmo" study s.json --draws 0 --csv points.csv >csv_out || fail 'study --csv'
cmp -s csv_out out || fail 'the answer depends on --csv'
[ "$(wc -l <points.csv)" -eq 13 ] || fail 'CSV: not every point'
head -n 1 points.csv | grep -q '^point,pipeline.stages,training.microbatches,balancing,infeasible,' ||
    fail 'CSV: the head'
grep -q '^8,16,8,even,more stages than layers,,' points.csv || fail 'CSV: a point that cannot be'

# Objectives.
best() { # best OBJECTIVE: the number of the best point
    "$dynmo" study s.json --draws 0 --rank-by "$1" --json | sed 's/.*"ranking":\[\([0-9]*\).*/\1/'
}
[ "$(best time)" != "$(best gpu-hours)" ] || fail 'the fastest point needs the fewest GPU-hours'
[ "$(best cost)" = "$(best gpu-hours)" ] || fail 'one price, and another order'
refuse 2 "--rank-by: unknown 'speed'; known: time, gpu-hours, cost, memory" s.json --rank-by speed
refuse 2 '--top: 0 is outside [1, 400]' s.json --top 0

# Names stand on terminals and in spreadsheets: none tells either what to do.
for name in '\u001b[2J' '\u007f' '\u009b2J'; do
    study ',"alternatives":{"how":{"'"$name"'":{"training.microbatches":4}}}'
    refuse 2 's.json: alternatives.how: a name holds a control character' s.json
done
study ',"alternatives":{"\u001b[2J":{"x":{"training.microbatches":4}}}'
refuse 2 's.json: alternatives.?[2J: a name holds a control character' s.json
for name in '=1+1' '+cmd' '-x' '@sum(1)'; do
    study ',"alternatives":{"how":{"'"$name"'":{"training.microbatches":4}}}'
    refuse 2 "s.json: alternatives.how: '$name' begins with $(echo "$name" | cut -c1), as a spreadsheet's formula does" s.json
done

# Axes that are none.
study ',"vary":{"pipeline.schedule":["1f1b","zb-h9"]}'
refuse 2 "s.json: axis 'pipeline.schedule' at 'zb-h9': s.json: pipeline.schedule: unknown schedule 'zb-h9'; did you mean 'zb-h1'?" \
    s.json
study ',"vary":{"model.n_layers":[6,12]}'
refuse 2 "s.json: axis 'model.n_layers' at '6': gpt2: has no 'n_layers' to change; did you mean 'n_layer'?" s.json
study ',"vary":{"hardware":["h100-sxm","h101"]}'
"$dynmo" study s.json >out 2>err
if [ $? -ne 1 ] || ! grep -q "axis 'hardware' at 'h101'.*no shipped hardware is named 'h101'" err; then
    fail 'a hardware that is not there'
fi
study ',"vary":{"training.data_parallel":["fill"]}'
refuse 2 "s.json: axis 'training.data_parallel' at 'fill': s.json: training.data_parallel: 'fill' needs cluster.gpus, the GPUs that replicas are made of" \
    s.json
study ',"cluster":{"price_per_gpu_hour":2}'
refuse 2 "s.json: cluster.price_per_gpu_hour: needs 'price_date', the day on which it was asked for" s.json
study ',"vary":{"pipeline.stages":[2,4]}'
refuse 2 's.json: an order by cost needs cluster.price_per_gpu_hour, which is missing' s.json --rank-by cost
study ',"alternatives":{"cluster":{"ours":{"pipeline.stages":2,"cluster.price_per_gpu_hour":3,"cluster.price_date":"2026-11-22"},"theirs":{"cluster.price_per_gpu_hour":2,"cluster.price_date":"2026-11-22"}}}'
"$dynmo" study s.json --rank-by cost --draws 0 >out 2>err || fail "prices of values alone: $(cat err)"
grep -q '^Cheapest: point 1 ' out || fail 'prices of values alone: the study as written, without one, is the cheapest'
study ',"vary":{"pipeline.stages":[16,17]}'
refuse 3 's.json: none of 2 points can be played; 2: more stages than layers, as pipeline.stages: 16 stages of 1 chunks need at least 16 layers, there are 14' \
    s.json
"$dynmo" simulate s.json >out 2>err
if [ $? -ne 2 ] || ! grep -qx 'dynmo: s.json: vary: has many runs for one; .dynmo study. plays them' err; then
    fail 'simulate takes axes'
fi
study ',"vary":{"cluster.gpus":[4,8]},"cluster":{"gpus":-1}'
refuse 2 "s.json: what the axis 'cluster.gpus' replaces: s.json: cluster.gpus: -1 is outside [1, 16777216]" s.json

# Replicas that fill the cluster are the most that the batch divides among; what all GPUs do counts
# those without work; a point that nearly was is told by its settings.
study ',"cluster":{"gpus":7}'
sed -i 's/"microbatches":8/"global_batch":100,"data_parallel":"fill"/; s/"stages":4/"stages":1/' s.json
"$dynmo" study s.json --draws 0 >filled || fail 'replicas that fill'
tr '\n' ' ' <filled | grep -q 'on 7 *GPUs, of which 5 have work' || fail 'replicas that the batch divides among'
grep -q 'training.data_parallel.filled *5 replicas on 5 of 7 GPUs, the most that divide batch and experts' filled ||
    fail 'replicas that fill are said'
sed 's/"global_batch":100/"global_batch":35/' s.json >all.json
"$dynmo" study all.json --draws 0 --json >all.out || fail '7 of 7'
"$dynmo" study s.json --draws 0 --json >some.out || fail '5 of 7'
python3 - <<'END' || fail 'the share of all GPUs'
import json
every, some = (json.load(open(name))["points"][0] for name in ("all.out", "some.out"))
assert abs(some["mfu"] / every["mfu"] - some["tokens_per_s"] / every["tokens_per_s"]) < 1e-6, (every, some)
END

# Studies that are made: written once, and what they play is what is in the file.
# Experts are spread over tensor ranks too, where each holds whole ones: 12 x 4 of them, not 8 x 4; and
# over 8 x 4 where each holds a quarter of them.
cat >experts.json <<'END'
{"schema":"dynmo-study/1","model":"qwen3-30b-a3b","hardware":"h100-sxm","cluster":{"gpus":48},"training":{"sequence_length":4096,
"global_batch":96,"data_parallel":"fill","tensor_parallel":4,"expert_parallel":8,"expert_tensor_parallel":1,"sequence_parallel":true,
"recompute":"full","sharding":"optimizer"},"pipeline":{"stages":1,"schedule":"1f1b"},"balancing":[{"balancer":"even"}]}
END
"$dynmo" study experts.json --draws 0 | grep -q 'filled *12 replicas on 48 of 48 GPUs$' || fail 'whole experts'
sed 's/"expert_tensor_parallel":1/"expert_tensor_parallel":4/' experts.json >quarters.json
"$dynmo" study quarters.json --draws 0 | grep -q 'filled *8 replicas on 32 of 48 GPUs, the most that divide batch and experts$' ||
    fail 'quarters of experts'

# Heads that tensor cores do not take as they are.
study ''
sed -i 's/"model":"gpt2"/"model":{"base":"gpt-megatron","n_layer":8,"n_embd":3456,"n_head":32}/; s/h100.json/h100-sxm/' s.json
"$dynmo" study s.json --draws 0 >fused 2>/dev/null
grep 'heads of' fused && fail 'heads of 108: fused attention fills them up'
sed -i 's/"training":{/"training":{"attention":"unfused",/' s.json
"$dynmo" study s.json --draws 0 >odd 2>err || [ $? -eq 3 ] || fail "heads of 108: $(cat err)"
cat odd err | grep -q 'heads of 108, no multiple of 8: such runs took 1.5 times as long' || fail "heads of 108: $(head -n 2 odd err)"

mkdir made && cd made || exit 1
"$dynmo" study --model gpt2 --gpu h100-sxm --gpus 8 --tokens 100B --global-batch 16 --draws 0 >first 2>err || fail "--model: $(cat err)"
grep -qx 'dynmo: wrote STUDY.json; edit it and run .dynmo study STUDY.json --draws 0.' err || fail '--model: what it wrote'
"$dynmo" study STUDY.json --draws 0 | cmp -s - first || fail '--model plays another study than it writes'
refuse 2 'STUDY.json: is there already; -o FILE writes the study elsewhere' --model gpt2 --gpu h100-sxm --gpus 8
"$dynmo" study --model llama-3-8b --gpu h100-sxm --gpus 12 --draws 0 -o 12.json >twelve 2>err || fail "--gpus 12: $(cat err)"
grep -q '"global_batch": 384,' 12.json || fail '--gpus 12: a global batch that its replicas do not divide'
grep -q '"training.context_parallel": \[1, 2\]' 12.json || fail 'sequences of 8,192 are not divided among two GPUs'
grep -q context_parallel STUDY.json && fail 'sequences of 1,024 are divided among GPUs'
grep -q 'global batch not divisible' twelve && fail '--gpus 12: replicas do not divide the global batch'
refuse 2 'dynmo study: --gpus is needed' --model gpt2 --gpu h100-sxm
refuse 2 "--tokens: '1Q' is no number of tokens from 1 to 2^53, as 300B or 1.5T" \
    --model gpt2 --gpu h100-sxm --gpus 8 --tokens 1Q
refuse 2 'dynmo study: --price needs --price-date, the day on which it was asked for' \
    --model gpt2 --gpu h100-sxm --gpus 8 --price 2
refuse 2 'dynmo study: --gpus goes with --model; a study says it itself' STUDY.json --gpus 8
refuse 2 'dynmo study: -o is for a study that is made from --model' STUDY.json -o x.json
refuse 2 'dynmo study: needs one of STUDY.json and --model CONFIG' --json
for name in dynamic memory network rent repack; do
    "$dynmo" study "$templates/$name.json" --top 1 --draws 0 >out 2>err || fail "template $name: $(cat err)"
    grep -q '^rank  *point' out || fail "template $name has no answer"
done
# What is made is read before it is written.
refuse 2 "made.json: cluster.price_date: has 0 bytes, needs 1 to 100" \
    --model gpt2 --gpu h100-sxm --gpus 2 --price 2 --price-date '' -o made.json
[ ! -e made.json ] || fail 'a study is left that cannot be played'

# Fewer GPUs, a deadline and a budget: what is beyond them is refused, and the least that would do is named.
"$dynmo" study --model gpt2 --gpu h100-sxm --gpus-max 20 --tokens 1B --global-batch 80 --price 2 \
    --price-date 2026-11-01 --draws 0 --json -o fewer.json >out 2>err || fail "--gpus-max: $(cat err)"
grep -q '"cluster.gpus": \[8, 16, 20\]' fewer.json || fail "--gpus-max 20: $(grep cluster.gpus fewer.json)"
sed -i 's/\[1, 2, 4\]/[1, 2]/; /"\(zb-v\|interleaved\)/d; s/\("zb-h1"}\),/\1/' fewer.json
python3 - "$dynmo" <<'END' || fail 'a deadline or a budget'
import json, subprocess, sys
def study(*options):
    run = subprocess.run([sys.argv[1], "study", "fewer.json", "--draws", "0", "--json", *options],
                         capture_output=True, text=True)
    return run.returncode, json.loads(run.stdout) if run.stdout else None, run.stderr
whole = [p for p in study()[1]["points"] if "train_s" in p]
assert {p["gpu_count"] for p in whole} >= {8, 16, 20}, "counts of GPUs"
limit = sorted(p["train_s"] for p in whole)[len(whole) // 2]
code, held, _ = study("--deadline", f"{limit / 60}min")
left = {p["point"]: p for p in held["points"] if "train_s" in p}
assert set(left) == {p["point"] for p in whole if p["train_s"] <= limit * (1 + 1e-9)}, "a deadline"
same = [left[n] for n in held["ranking"] if n in left]
assert all(a["gpu_hours"] <= b["gpu_hours"] for a, b in zip(same, same[1:])), "the order under a deadline"
costs = sorted(p["cost"] for p in whole)
code, held, _ = study("--budget", str(costs[10]))
assert sum("train_s" in p for p in held["points"]) == sum(c <= costs[10] for c in costs), "a budget"
code, _, said = study("--budget", "0.01")
assert code == 3 and "beyond the deadline or the budget, by least point " in said, said
assert f"costs {costs[0]:.0f} USD, the budget is 0" in said, said
END
refuse 2 "--deadline: 'soon' is no time up to 10^6 days, as 90min, 20h or 3d" fewer.json --deadline soon
refuse 2 "priced.json: cluster.price_date: '2026-13-01' is no day, as 2026-11-22" --model gpt2 --gpu h100-sxm --gpus 8 --price 2 --price-date 2026-13-01 -o priced.json
refuse 2 'dynmo study: --gpus and --gpus-max: one of them' --model gpt2 --gpu h100-sxm --gpus 8 --gpus-max 8

# GPUs without work are named, and currencies are no axis.
"$dynmo" study --model gpt2 --gpu h100-sxm --gpus 3 --global-batch 4 --draws 0 -o three.json >out 2>err
sed -n 3,6p out | tr '\n' ' ' | grep -q 'on 3 GPUs, of which 2' || fail "three GPUs: $(sed -n 3,6p out)"
cat >money.json <<'END'
{"schema": "dynmo-study/1", "model": "gpt2", "hardware": "h100-sxm", "training": {"iterations": 1},
 "pipeline": {"stages": 2}, "alternatives": {"offer": {
  "a": {"cluster.price_per_gpu_hour": 2, "cluster.price_date": "2026-11-01", "cluster.price_currency": "EUR"},
  "b": {"cluster.price_per_gpu_hour": 3, "cluster.price_date": "2026-11-01"}}}}
END
refuse 2 "money.json: alternatives.offer.a.cluster.price_currency: 'cluster.price_currency' names nothing in a study; did you mean 'cluster.price_source'?" \
    money.json
# `tuned` is never slower than `even`, also where messages make the even split the faster one.
cat >tuned.json <<'END'
{"schema":"dynmo-study/1","model":"mixtral-8x22b","hardware":"h100-sxm","cluster":{"gpus_per_node":8,"memory_bytes":0},
 "training":{"iterations":1,"sequence_length":4096,"microbatch_size":1,"dtype":"bfloat16","tensor_parallel":4},
 "pipeline":{"stages":16,"schedule":"1f1b"},
 "balancing":[{"balancer":"even"},{"balancer":"tuned"},{"balancer":"partition"}],
 "vary":{"training.microbatches":[16,32],"pipeline.schedule":["1f1b","zb-h1","zb-h2"]}}
END
"$dynmo" study tuned.json --draws 0 --csv tuned.csv >/dev/null || fail 'a study of tuned and even'
awk -F, 'NR == 1 { for (c = 1; c <= NF; c++) at[$c] = c; next }
    $1 != "" { t[$at["training.microbatches"] " " $at["pipeline.schedule"], $at["balancing"]] = $at["iteration_ns"]
      k[$at["training.microbatches"] " " $at["pipeline.schedule"]] }
    END { for (x in k) { n++; worse += t[x, "partition"] > t[x, "even"]; slow += t[x, "tuned"] > t[x, "even"] }
          exit !(n == 6 && worse > 0 && slow == 0) }' tuned.csv || fail 'tuned is slower than even'
# Who can play the best point, and the best that the others can, as export has it; or for one of them alone.
cp "$plain" h100.json
study ',"balancing":{"balancer":"tuned"},"vary":{"training.tensor_parallel":[1,2],"pipeline.schedule":["1f1b","zb-h1","zb-v"]},"cluster":{"memory_bytes":0}'
cp s.json t.json
"$dynmo" study s.json --draws 0 >out || fail 'frameworks'
tr '\n' ' ' <out >line
grep -qF 'Fastest: point 5 (tensor_parallel 2, schedule zb-v) ' line || fail "frameworks: $(cat line)"
grep -qF 'export` takes it to pytorch, torchtitan; the first for megatron, megatron-bridge is at rank 3 (+15.7 %), point 3 (schedule 1f1b); the first for deepspeed is at rank 5 (+58.0 %), point 0 (tensor_parallel 1, schedule 1f1b). ' line ||
    fail "frameworks: $(cat line)"
"$dynmo" study s.json --draws 0 --json | grep -q '"framework":"any","frameworks":{"megatron":{"best_point":3,"rank":3,"behind_ratio":0\.15[0-9]*},.*,"deepspeed":{"best_point":0,' ||
    fail 'frameworks as JSON'
for each in "megatron 3" "pytorch 5" "torchtitan 5" "deepspeed 0"; do
    # shellcheck disable=SC2086 # a framework and a point
    set -- $each
    "$dynmo" export "$1" s.json --point "$2" >/dev/null || fail "export takes point $2 to no $1"
    "$dynmo" study s.json --draws 0 --framework "$1" >out || fail "--framework $1"
    grep -q "^Fastest: point $2 " out || fail "--framework $1: $(cat out)"
    grep -q 'dynmo export' out && fail "--framework $1 tells of others"
done
grep -qF '5  cannot be exported; point 1: deepspeed: schedule zb-h1: with 1 chunk a rank DeepSpeed runs 1f1b in its own order' out ||
    fail 'points that cannot be exported are not counted'
# Where nothing of the training as written can be played, the answer is of another.
study ',"vary":{"training.microbatches":[8]},"cluster":{"memory_bytes":3000000000}'
sed -i 's/"microbatches":8/"microbatches":64/; s/"1f1b"/"gpipe"/' s.json
"$dynmo" study s.json --draws 0 --json >json || fail 'another training'
grep -q '"ranking":\[\],"other_training":\[0\],.*"megatron":null,"megatron-bridge":null,"pytorch":{"best_point":0,"rank":1,' json ||
    fail "another training: $(cat json)"
"$dynmo" study s.json --draws 0 | tr '\n' ' ' |
    grep -qF 'export` takes it to pytorch, torchtitan; none goes to megatron, megatron-bridge, deepspeed. ' || fail 'another training'
sed 's/"1f1b","zb-h1",//' t.json >v.json
refuse 3 'v.json: none of 2 points can be played; 2: cannot be exported, as megatron: placement v: a layout of Megatron places chunks interleaved only: stage i on rank i mod 4; plan for 1f1b or interleaved-1f1b (--schedule), or for another schedu' \
    v.json --framework megatron
refuse 2 "--framework: unknown 'horovod'; known: any, megatron, megatron-bridge, pytorch, torchtitan, deepspeed" \
    s.json --framework horovod

exit $failed
