# shellcheck shell=sh disable=SC2086,SC2034
# Usage: sh tests/gpu/run_all.sh RESULTS [BIN] [--stage N]... [--within SECONDS]
# Everything that one GPU can settle, in seven stages of at most 8 minutes each, what tells most first; all, or those that
# are named:
#   1  kernels beside plain C
#   2  training: the same bits under every plan, schedule and migration, with every mechanism
#   3  execution beside what the simulator says from its first warm iterations, which fails beyond 3 % for one plan and
#      10 % where layers move (TOLERANCE)
#   4  the node's hardware file
#   5  the kernels under each tool of compute-sanitizer
#   6  a trace of each mechanism
#   7  figures: products and attention beside cuBLASLt alone and PyTorch, cuSPARSE beside cuBLAS
# --within: all of it ends within SECONDS. Every stage has a share of them; what one leaves goes to those after it, and in
# the end to what the shares were too small for. A step for which there was no time, or not enough, is noted as `not run`,
# named at the end, and no failure. What has ended according to RESULTS is not repeated: a second call goes on.
# Without --within a step that the stage's limit stops has failed, as has always one that its own limit stops.
# For a machine with a GPU of compute capability 8.0 or later, its driver and cuBLAS 13; nothing else. BIN
# holds the programs with their libraries; where it is not given they are in bin/ of what
# tests/gpu/pack.sh has packed, else they are built by CMake. Leaves at most 8 files in RESULTS; what a
# stage has got until then also when it is killed. tests/gpu/validation_table.py makes a table of them.
# Ends with 0 if nothing has failed as RESULTS says, in an earlier call too.
#
# SMOKE=1 takes the smallest sizes, for a trial on an emulated GPU (tests/gpu/pack.sh --emulated);
# DEVICE=cpu plays the runs on the host. Neither says anything about time: TOLERANCE is 10 then.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
shares='4 5 4 3 3 3 2'
# shellcheck source=gpu/steps.sh
. "$root/tests/gpu/steps.sh"
read_arguments "$@"

if [ -n "${SMOKE:-}" ]; then
    smoke=--smoke bits_model='3 16 2 64 1 4 4' model=${MODEL:-'3 16 2 32 1 4 6'} probed='--seconds 0.001 --bytes 4194304 --tokens 16 --precision fp32'
    : "${TOLERANCE:=10}" "${HARDWARE:=cpu-core}"
else
    # Layers, width, heads, tokens of a sequence, sequences of a microbatch, microbatches, iterations. Ops of the
    # second last about a millisecond on an eighth of an H100. Layers of the first are no multiple of 4: an even split
    # over 4 stages would be that by parameters too, and none would move.
    smoke='' bits_model='10 512 8 512 4 8 6' model=${MODEL:-'16 1024 16 2048 4 16 12'} probed='--seconds 0.2'
    case $device in
    cpu) bits_model='6 64 4 64 2 8 6' model=${MODEL:-'6 64 4 128 2 8 12'} probed='--seconds 0.05' ;;
    esac
fi
if [ "$device" = cpu ]; then
    smoke=--smoke probed=${probed%--precision fp32}
    : "${TOLERANCE:=10}"
fi

# preset_of_gpu: the shipped hardware whose dense peak is this GPU's.
preset_of_gpu() {
    case $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) in
    *H200*) echo h200-sxm ;;
    *B200*) echo b200 ;;
    *A100*) echo a100-sxm-80gb ;;
    *) echo h100-sxm ;;
    esac
}
mechanisms='moe mod early-exit pruning freezing sparse-attention'

# Options of runs whose times are looked at elsewhere.
unjudged='--warmup 0 --tolerance 0'

stage_1() {
    step kernels 180 "$bin/gpu_test_kernels" $smoke
}

stage_2() {
    write_model bits "$bits_model"
    write_study bits moving 4 zb-h1 '{"balancer":"parameters","policy":"every:1"}'
    run_study bits 40 moving-4-zb-h1 $computes $unjudged
    for stages in 1 2 4 8; do
        if [ "$stages" -gt "$layers" ]; then continue; fi
        write_study bits even "$stages" zb-h1 '{"balancer":"even"}'
        run_study bits 40 "even-$stages-zb-h1" $computes $unjudged
    done
    for schedule in gpipe 1f1b zb-h2 interleaved-1f1b zb-v; do
        write_study bits even 2 $schedule '{"balancer":"even"}'
        run_study bits 40 "even-2-$schedule" $computes $unjudged
    done
    # One GPU has no other to send to, but NCCL starts, makes its communicators and ends.
    if [ "$device" = cuda ] && [ -f "$bin/dynmo_nccl.so" ]; then
        write_study bits nccl 1 zb-h1 '{"balancer":"even"}'
        run_study bits 60 nccl-1-zb-h1 $computes $unjudged --transport nccl
    fi
    same_hashes bits
    for mechanism in $mechanisms; do
        for stages in 1 4; do
            write_study bits "$mechanism" "$stages" zb-h1 '{"balancer":"parameters","policy":"every:1"}' "$mechanism"
            run_study "$mechanism" 40 "$mechanism-$stages-zb-h1" $computes $unjudged
        done
        same_hashes "$mechanism"
        began "$mechanism"
    done
    # Two replicas, each with all experts on one stage, then sharing them on two.
    write_mixtral shared bits
    for stages in 1 2; do
        write_study shared even "$stages" zb-h1 '{"balancer":"even"}' moe "$stages"
        run_study shared 40 "even-$stages-zb-h1" $computes $unjudged --data-parallel 2
    done
    same_losses shared
    # The longest step, last: the others are so short that some fit into any time.
    step training 150 "$bin/gpu_test_training" $smoke
}

stage_3() {
    write_model agreement "$model"
    for stages in 4 2 8; do
        if [ "$stages" -gt "$layers" ]; then continue; fi
        for schedule in 1f1b zb-h1; do
            write_study agreement even "$stages" $schedule '{"balancer":"even"}'
            run_study agreement 40 "even-$stages-$schedule" $computes --tolerance "${TOLERANCE:-0.03}"
        done
    done
    for balancer in parameters partition diffusion makespan; do
        write_study agreement "$balancer" 4 zb-h1 "{\"balancer\":\"$balancer\",\"policy\":\"every:3\"}" mod
        run_study agreement 40 "$balancer-4-zb-h1" $computes --tolerance "${TOLERANCE:-0.10}"
    done
}

stage_4() {
    write_model probe "$model"
    told="--hardware ${HARDWARE:-$(preset_of_gpu)}" measured_dtype=bfloat16
    if [ "$device" = cpu ]; then told=; fi
    if [ -n "${SMOKE:-}" ]; then told="$told --model $work/probe-model.json"; fi
    case "$device $probed" in *cpu* | *fp32*) measured_dtype=float32 ;; esac
    step probe 240 "$bin/dynmo" probe --device "$device" $told $probed -o "$work/hardware.json"
    step hardware 20 "$bin/dynmo" model --model gpt2 --dtype $measured_dtype --hardware "$work/hardware.json"
}

stage_5() {
    for tool in memcheck racecheck synccheck initcheck; do
        sanitize $tool 100 "$bin/gpu_test_kernels" --smoke
    done
}

stage_6() {
    write_model trace "$model"
    for mechanism in $mechanisms; do
        write_study trace "$mechanism" 2 zb-h1 '{"balancer":"even"}' "$mechanism"
        run_study trace 60 "$mechanism-2-zb-h1" $computes --tolerance 0 --record "$work/$mechanism.db"
    done
}

stage_7() {
    step figures 90 "$bin/gpu_measure_kernels" $smoke
    keep_figures figures
    step cublaslt 30 "$bin/gpu_measure_cublaslt" $smoke
    keep_figures cublaslt
    pytorch sdpa 60 measure_sdpa.py
    pytorch sparse 60 measure_sparse.py
}

run_stages
