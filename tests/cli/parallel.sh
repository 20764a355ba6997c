# dynmo simulate over the parallelism around the pipeline: a model of 140 billion parameters on 256 GPUs fits
# as its study says, does not without what the study does about memory, and degrees that do not fit are refused.
# usage: parallel.sh DYNMO
root=$(cd .. && pwd)
. cli/expect.sh

subject=simulate
study=$root/models/studies/mixtral-8x22b.json

# varies SED: the study with few iterations and one edit more, as v.json.
varies() {
    sed "s/\"iterations\": 500/\"iterations\": 2/; $1" "$study" >v.json
    cmp -s "$study" v.json && fail "'$1' changes nothing"
}

# peaks: the largest peak of memory of any row of out, in bytes.
peak() {
    grep -o '"peak_memory_bytes":\[[0-9,]*' out | tr -cs '0-9' '\n' | sort -n | tail -1
}

# plays SED: the study so edited succeeds, and every row fits 80 GB.
plays() {
    varies "$1"
    "$dynmo" simulate v.json --json >out 2>err || fail "$1: $(cat err)"
    grep -q '"fits":true' out || fail "$1: no row fits"
    grep -q '"fits":false\|"infeasible"' out && fail "$1: a row does not fit"
    [ "$(peak)" -le 80000000000 ] || fail "$1: $(peak) bytes"
}

plays 's/"name"/"name"/'
whole=$(peak)
plays 's/"recompute": "none"/"recompute": "full"/'
[ "$(peak)" -lt "$whole" ] || fail 'full recomputation keeps as much'
# What B makes again of a layer is set aside. Numbers of 2 bytes: of a GPU's own 2048 tokens 2 x 6144 into norms, 6144 into
# attention and 6144 into the router, 2 x 6144 from experts, less the 6144 that are kept; of all 8192 tokens 2048 and
# 1536 in and out of the core, 2 x 6144 into experts, 2 x 8192 and 8192 in and out of their activation.
grep -q '"name":"training.working_bytes","value":"788529152 B"' out || fail 'full recomputation sets nothing aside'
plays 's/"expert_parallel": 2/"expert_parallel": 8/'
plays 's/"data_parallel": 8/"data_parallel": 4, "context_parallel": 2/'

# Both mappings that Megatron Core names as its best for Mixtral ran on H100 of 80 GB, without recomputation: 8x22B
# on 128 GPUs (tensor 4, expert 2, pipeline 8), and 8x7B on 64 (tensor 1, expert 8, pipeline 4).
plays 's/"data_parallel": 8/"data_parallel": 4/; s/8192/4096/; s/"nodes": 32/"nodes": 16/'
plays 's/8x22b"/8x7b"/; s/"nodes": 32/"nodes": 8/; s/8192/4096/; s/"data_parallel": 8/"data_parallel": 16/
    s/"tensor_parallel": 4/"tensor_parallel": 1/; s/"expert_parallel": 2/"expert_parallel": 8/
    s/"microbatches": 64/"microbatches": 16/; s/"stages": 8/"stages": 4/'

# refuses CODE MESSAGE SED
refuses() {
    varies "$3"
    refuse "$1" "$2" v.json
}

# With whole optimizers the even split needs too much; under caps the balancer still finds one that fits.
varies 's/"sharding": "optimizer"/"sharding": "none"/'
"$dynmo" simulate v.json --json >out 2>err || fail "no sharding: $(cat err)"
grep -q '"infeasible":"even: stage 0 with layers \[0, 8) needs 89512648704 bytes, its cap is 76300000000"' out ||
    fail 'no sharding: the even split fits'
grep -q '"label":"partition every:1",[^}]*"executable":true' out || fail 'no sharding: no split fits'
[ "$(peak)" -le 80000000000 ] || fail "no sharding: $(peak) bytes"

refuses 3 'v.json: cluster.nodes: data 8 x tensor 4 x context 1 x pipeline 8 need 256 GPUs, 31 nodes of 8 have 248' \
    's/"nodes": 32/"nodes": 31/'
refuses 3 'v.json: recomputation, sharding, CUDA and NCCL hold 4488529152 bytes at a time, a GPU has 700000000' \
    's/"none"/"full"/; s/"nodes": 32/"nodes": 32, "memory_bytes": 700000000/'
refuses 2 'v.json: data 65536 x tensor 65536 x context 65536 are 281474976710656 GPUs a stage, at most 16777216 are modelled' \
    's/"data_parallel": 8/"data_parallel": 65536, "context_parallel": 65536/; s/"tensor_parallel": 4/"tensor_parallel": 65536/'
refuses 2 'v.json: tensor 5 does not divide the 48 attention heads' 's/"tensor_parallel": 4/"tensor_parallel": 5/'
refuses 2 'v.json: expert 3 does not divide the 8 experts' 's/"expert_parallel": 2/"expert_parallel": 3/'
refuses 2 'v.json: expert 8 does not divide data 4 x context 1 = 4' \
    's/"expert_parallel": 2/"expert_parallel": 8/; s/"data_parallel": 8/"data_parallel": 4/'
refuses 2 'v.json: expert 2: the model has no experts' 's/mixtral-8x22b/llama-3-8b/; s/"moe"/"mod"/'
refuses 2 'v.json: context 4: 2 x 4 parts do not divide the 8190 tokens of a sequence' \
    's/8192/8190/; s/"data_parallel": 8/"data_parallel": 2, "context_parallel": 4/'
refuses 2 'v.json: tensor 4 does not divide the 8190 tokens of a sequence that a rank has, as sequence parallelism needs' \
    's/8192/8190/'
exit "$failed"
