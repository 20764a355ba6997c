# dynmo simulate against published runs that none of its inputs know: GPT of 22 to 1000 billion parameters on 8 to
# 512 A100 of 80 GB, Korthikanti et al., arXiv 2205.05198, tables 3 and 5: s of an iteration, and what fits.
# usage: published_gpt.sh DYNMO
. cli/expect.sh

# simulate HEADS HIDDEN LAYERS STAGES CHUNKS SAMPLES SIZE RECOMPUTE SEQUENCE: out.
simulate() {
    cat >config.json <<CONFIG
{"model_type":"gpt2","n_layer":$3,"n_embd":$2,"n_head":$1,"n_positions":2048,"vocab_size":51200}
CONFIG
    pipeline="\"stages\":$4,\"schedule\":\"1f1b\""
    [ "$5" -eq 1 ] || pipeline="\"stages\":$4,\"schedule\":\"interleaved-1f1b\",\"chunks\":$5"
    cat >study.json <<STUDY
{"schema":"dynmo-study/1","model":"config.json","hardware":"a100-sxm-80gb","cluster":{"nodes":$4,"memory_bytes":0},
"training":{"iterations":1,"sequence_length":2048,"microbatch_size":$7,"microbatches":$(($6 / $7)),
"tensor_parallel":8,"sequence_parallel":$9,"recompute":"$8","attention":"unfused"},
"pipeline":{$pipeline},"balancing":[{"balancer":"even"}]}
STUDY
    "$dynmo" simulate study.json --json >out 2>err || fail "$*: $(cat err)"
}

# takes PERCENT MS: the iteration of out is that long, within so many percent.
takes() {
    ms=$(($(sed 's/.*"iteration_mean_ns":\([0-9]*\).*/\1/' out) / 1000000))
    off=$(((ms - $2) * 100 / $2))
    if [ "$off" -lt "-$1" ] || [ "$off" -gt "$1" ]; then fail "$ms ms, published $2"; fi
}

# peak: of the fullest GPU of out, in bytes.
peak() {
    grep -o '"peak_memory_bytes":\[[0-9,]*' out | tr -cs '0-9' '\n' | sort -n | tail -1
}

# publishes PERCENT PRESENT_MS FULL_MS MODEL...: both published times, and memory: full recomputation fits, as does
# the paper's work (sequence parallelism and selective recomputation), but neither of its halves alone.
publishes() {
    percent=$1 present=$2 full=$3
    shift 3
    simulate "$@" full false
    takes "$percent" "$full"
    [ "$(peak)" -lt 80000000000 ] || fail "$*: full recomputation needs $(peak) bytes"
    simulate "$@" selective true
    takes "$percent" "$present"
    [ "$(peak)" -lt 80000000000 ] || fail "$*: the paper's work needs $(peak) bytes"
    for half in 'none false' 'none true' 'selective false'; do
        # shellcheck disable=SC2086 # two words
        simulate "$@" $half
        [ "$(peak)" -gt 80000000000 ] || fail "$*: $half needs only $(peak) bytes"
    done
}

# The smallest has no pipeline and one microbatch: launches and the optimizer's step show.
publishes 15 1100 1420 64 6144 48 1 1 4 4
publishes 8 13750 18130 96 12288 96 8 3 64 1
publishes 8 37830 49050 128 20480 105 35 3 280 1
publishes 8 71490 94420 160 25600 128 64 1 512 1
exit "$failed"
