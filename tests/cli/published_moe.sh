# dynmo simulate against published runs that none of its inputs know: Mixtral-8x22B on H100 under five ways to be
# parallel, and with experts folded over tensor ranks on 128 to 1024 GPUs: Liu et al., arXiv 2504.14960, tables 1, 3
# and 4: percent of the dense rate of the GPUs, 989.5 TFLOP/s, in FLOP of the model. Tokens are dropped there so that
# experts are balanced, as the cost model has them, and go to them by all-to-alls. How many chunks a rank has is not
# said: from 1 to all 7.
# usage: published_moe.sh DYNMO
. cli/expect.sh

# simulate GPUS BATCH STAGES CHUNKS SHARDING DEGREES: tenths of a percent, and the study fits 80 GB.
simulate() {
    replicas=$(($1 / $3 / tensor))
    pipeline="\"stages\":$3,\"schedule\":\"1f1b\""
    [ "$4" -eq 1 ] || pipeline="\"stages\":$3,\"schedule\":\"interleaved-1f1b\",\"chunks\":$4"
    cat >study.json <<STUDY
{"schema":"dynmo-study/1","model":"mixtral-8x22b","hardware":"h100-sxm","cluster":{"nodes":$(($1 / 8)),"memory_bytes":0},
"training":{"iterations":1,"sequence_length":4096,"microbatch_size":1,"microbatches":$(($2 / replicas)),"sharding":"$5",
"data_parallel":$replicas,"tensor_parallel":$tensor,"sequence_parallel":true,$6,"rank_order":"data-first",
"reduction_overlap":"backward"},"pipeline":{$pipeline},"balancing":[{"balancer":"even"}]}
STUDY
    "$dynmo" simulate study.json --json >out 2>err || fail "$*: $(cat err)"
    peak=$(grep -o '"peak_memory_bytes":\[[0-9,]*' out | tr -cs '0-9' '\n' | sort -n | tail -1)
    [ "$peak" -lt 80000000000 ] || fail "$*: $peak bytes"
    ns=$(sed 's/.*"iteration_mean_ns":\([0-9]*\).*/\1/' out)
    # FLOP of a token: 6 per parameter of the matrices that it meets, and 12 s h per layer of the core.
    flop=$((6 * (56 * (2 * 6144 * 7168 + 2 * 3 * 6144 * 16384 + 6144 * 8) + 32000 * 6144) + 56 * 12 * 4096 * 6144))
    mflop=$((flop / 1000000))
    mflop=$((mflop * 4096 * $2 / $1)) # of a GPU; it does 989,500,000 in a second
    us=$((ns / 1000))
    tenths=$((mflop * 2000 / (us * 1979)))
}

# between LOW HIGH PUBLISHED: tenths is, and so is what was published.
between() {
    if [ "$tenths" -lt "$1" ] || [ "$tenths" -gt "$2" ]; then fail "$tenths is not in [$1, $2], published $3"; fi
}

# Without a pipeline. The weights of a layer are gathered for every pass: nothing else counts where all GPUs have all
# experts. Where they do not, what is said here is a bound: gathering hides behind compute as far as it can.
tensor=8
simulate 128 256 1 1 parameters '"expert_parallel":1'
between 40 50 43
tensor=2
simulate 128 256 1 1 parameters '"expert_parallel":8'
between 234 400 234
tensor=4
simulate 128 256 1 1 optimizer '"expert_parallel":8'
between 366 450 366

# With one: published numbers lie between those of 1 and of 7 chunks, or within a tenth of them.
tensor=2
simulate 128 256 8 1 optimizer '"expert_parallel":4,"expert_deduplication":0'
between 425 463 463
simulate 128 256 8 7 optimizer '"expert_parallel":4,"expert_deduplication":0'
between 463 545 463
divided=$tenths
folded='"expert_parallel":8,"expert_tensor_parallel":1,"expert_deduplication":0'
simulate 128 256 8 1 optimizer "$folded"
between 440 493 493
simulate 128 256 8 7 optimizer "$folded"
between 493 555 493
[ "$tenths" -gt "$divided" ] || fail 'folding experts does not help'
while read -r gpus published; do
    simulate "$gpus" 1024 8 1 optimizer "$folded"
    between $((published * 79 / 100)) $((published * 110 / 100)) "$published"
    one=$tenths
    simulate "$gpus" 1024 8 7 optimizer "$folded"
    between "$one" $((published * 116 / 100)) "$published"
done <<'PUBLISHED'
128 522
256 507
512 489
1024 449
PUBLISHED
exit "$failed"
