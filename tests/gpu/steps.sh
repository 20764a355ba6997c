# shellcheck shell=sh disable=SC2154,SC2034
# What tests/gpu/run_all.sh and tests/multigpu/run_all.sh share. They set root and shares, a number for each stage, define
# stage_N for each and end with run_stages, which ends with 0 if nothing failed.

stage_seconds=${STAGE_SECONDS:-480}
not_run=''
packing_seconds=10 # of --within: to end a program and pack what there is
device=${DEVICE:-cuda}
case $device in
cuda) computes='--device cuda --precision bf16' dtype=bfloat16 ;;
*) computes="--device $device" dtype=float32 ;;
esac

usage='run_all.sh RESULTS [BIN] [--stage N]... [--within SECONDS]'

# is_number WORD LOW HIGH
is_number() {
    case $1 in
    '' | 0?* | *[!0-9]* | ??????*) return 1 ;;
    esac
    [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}

refuse() {
    echo "$*" >&2
    exit 2
}

# read_arguments: sets results, bin, stages_to_run and all_end, when --within is over, and makes work.
read_arguments() {
    results='' bin='' stages_to_run='' all_end=''
    stage_count=$(echo "$shares" | wc -w)
    while [ $# -gt 0 ]; do
        case $1 in
        --stage)
            is_number "${2:-}" 1 "$stage_count" || refuse "--stage ${2:-}: there are stages 1 to $stage_count"
            stages_to_run="$stages_to_run $2"
            shift
            ;;
        --within)
            is_number "${2:-}" 1 99999 || refuse "--within ${2:-}: how many seconds, 1 to 99999"
            all_end=$(($(date +%s) + $2 - packing_seconds))
            shift
            ;;
        *) if [ -z "$results" ]; then results=$1; else bin=$1; fi ;;
        esac
        shift
    done
    : "${stages_to_run:=$(seq "$stage_count")}"
    mkdir -p "${results:?usage: $usage}"
    results=$(cd "$results" && pwd)
    work=$(mktemp -d)
    : >>"$results/runs.jsonl"
    trap 'rm -rf "$work"' EXIT
}

# find_programs: sets bin, building the programs if there are none, and where their libraries are.
find_programs() {
    if [ -z "$bin" ] && [ -d "$root/bin" ]; then bin=$root/bin; fi
    if [ -z "$bin" ]; then
        if ! { cmake -S "$root" -B "$root/build" -DCMAKE_BUILD_TYPE=Release &&
            cmake --build "$root/build" --parallel "$(nproc)"; } >"$work/build.log" 2>&1; then
            tail -n 5 "$work/build.log" >&2
            echo 'the build failed' >&2
            exit 1
        fi
        bin=$work/bin
        mkdir -p "$bin"
        for program in "$root"/build/dynmo "$root"/build/dynmo_*.so "$root"/build/tests/gpu_* \
            "$root"/build/tests/multigpu_*; do
            if [ -f "$program" ]; then ln -s "$program" "$bin/"; fi
        done
    fi
    bin=$(cd "$bin" && pwd)
    paths=$bin/lib
    for library in libcublasLt.so.13 libnccl.so.2 libcuda.so.1; do
        paths=$paths:$(folder_of $library)
    done
    their_libraries=${LD_LIBRARY_PATH:-}
    export LD_LIBRARY_PATH="$paths${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    if ! "$bin/dynmo" --version >/dev/null; then
        echo "$bin/dynmo does not start" >&2
        exit 1
    fi
}

# folder_of LIBRARY: where it lies, if the loader does not find it by itself.
folder_of() {
    if ldconfig -p 2>/dev/null | grep -q "$1 "; then return; fi
    for place in /usr/local/nvidia /usr/local/cuda*/lib64 /usr/local/cuda*/targets/x86_64-linux/lib \
        /usr/lib/x86_64-linux-gnu /opt /usr/local/lib /usr/lib/python3; do
        found=$(find "$place" -name "$1" 2>/dev/null | head -n 1)
        if [ -n "$found" ]; then
            dirname "$found"
            return
        fi
    done
}

run_stages() {
    find_programs
    is_open='' late_stages=''
    # shellcheck disable=SC2086 # a list of words
    set -- $stages_to_run
    while [ $# -gt 0 ]; do
        play_stage "$1" "$(time_of_stage "$@")"
        shift
    done
    if [ -n "$late_stages" ] && [ $((all_end - $(date +%s))) -gt 0 ]; then
        not_run=''
        for number in $late_stages; do
            play_stage "$number" $((all_end - $(date +%s)))
        done
    fi
    if [ -n "$not_run" ]; then echo "not run:$not_run" >&2; fi
    [ "$(failures)" -eq 0 ]
}

# failures: how many steps have failed as RESULTS says, in an earlier call too: each as it ended last. What neither passed
# nor was skipped has failed, but for what --within had no time for.
failures() {
    awk -F '"' '$8 == "outcome" { last[$4] = $10 }
        END { for (step in last) failed += last[step] !~ /^(passed|skipped|not run)$/; print failed + 0 }' "$results/results.jsonl"
}

# time_of_stage N...: how many seconds the first of these has: with --within its share of what is left for all.
time_of_stage() {
    if [ -z "$all_end" ]; then
        echo "$stage_seconds"
        return
    fi
    all=0 own=''
    for number in "$@"; do
        share=$(echo "$shares" | cut -d ' ' -f "$number")
        all=$((all + share))
        : "${own:=$share}"
    done
    echo $(((all_end - $(date +%s)) * own / all))
}

# play_stage N SECONDS
play_stage() {
    begin_stage "$1" "$2"
    if [ -z "$is_open" ] && [ "$device" = cuda ] && [ ! -f "$bin/emulated" ]; then open_gpu; fi
    is_open=yes
    "stage_$1"
    if [ -n "$late" ]; then late_stages="$late_stages $1"; fi
    end_stage "$1"
}

# begin_stage N SECONDS: its deadline, and the machine as the first line of the results.
begin_stage() {
    stage=$1 stage_begin=$(date +%s) late=''
    stage_end=$((stage_begin + $2))
    if [ -s "$results/results.jsonl" ]; then return; fi
    cards=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null |
        head -n 16 | tr '\n' ';' || true)
    commit=$(cat "$bin/commit" 2>/dev/null || git -C "$root" describe --always --dirty 2>/dev/null ||
        echo unknown)
    printf '{"step":"facts","device":"%s","emulated":%s,"gpu":"%s","commit":"%s","system":"%s","date":"%s"}\n' \
        "$device" "$([ -f "$bin/emulated" ] && echo true || echo false)" "$cards" "$commit" \
        "$(uname -sr), $(nproc) cores" "$(date -u +%Y-%m-%dT%H:%MZ)" >"$results/results.jsonl"
}

# end_stage: packs what it left, beside the lines that are in RESULTS already.
end_stage() {
    tar -C "$work" -czf "$results/logs.tar.gz" --exclude='*.db' --exclude=bin .
    if [ -n "$(find "$work" -name '*.db')" ]; then
        (cd "$work" && tar -czf "$results/traces.tar.gz" ./*.db)
    fi
    if [ -f "$work/hardware.json" ]; then cp "$work/hardware.json" "$results/"; fi
    echo "stage $1: $(($(date +%s) - stage_begin)) s; $(failures) failed so far" >&2
}

# Mechanisms with what makes them begin within the first iterations.
mechanism_of() {
    case $1 in
    moe) echo '{"name":"moe","expert_count":8,"top_k":2}' ;;
    mod) echo '{"name":"mod","capacity_ratio":0.125}' ;;
    early-exit) echo '{"name":"early-exit","settle_iterations":1,"threshold":0.9,"first_exit":1}' ;;
    pruning) echo '{"name":"pruning","start_iteration":1,"end_iteration":5,"interval":2}' ;;
    freezing) echo '{"name":"freezing","start_iteration":1,"interval":1,"tolerance":1,"patience":1}' ;;
    sparse-attention) echo '{"name":"sparse-attention","block_rows":0}' ;;
    esac
}

# open_gpu: whether there is one. The program has the driver load all kernels at its start, those of cuBLASLt
# among them; where that costs every start more than 3 s, they are loaded when they are first launched. The first
# of three starts is not compared: on a fresh machine it reads the libraries from the disk. Beside NCCL all are
# always loaded at the start: its kernels wait on the GPU for other ranks, and loading one may wait for them.
open_gpu() {
    step "gpu-$stage" 60 env CUDA_MODULE_LOADING=LAZY "$bin/gpu_measure_kernels" --smoke
    if [ "$outcome" = skipped ]; then note "gpu-$stage" failed 0 "$last"; fi
    if [ "${gpus:-1}" -gt 1 ]; then return; fi
    step "lazy-$stage" 60 env CUDA_MODULE_LOADING=LAZY "$bin/gpu_measure_kernels" --smoke
    lazy=$(($(date +%s) - started))
    step "loading-$stage" 60 env CUDA_MODULE_LOADING=EAGER "$bin/gpu_measure_kernels" --smoke
    if [ $(($(date +%s) - started)) -gt $((lazy + 3)) ]; then export CUDA_MODULE_LOADING=LAZY; fi
}

# has_ended NAME: whether RESULTS says how this step ended, and --within goes on from there.
has_ended() {
    [ -n "$all_end" ] && [ -n "$is_open" ] &&
        grep "\"step\":\"$1\"," "$results/results.jsonl" | grep -qv '"outcome":"not run"'
}

# step NAME SECONDS COMMAND...: runs it in tests/ and notes how it ended; its output is in NAME.log. Sets outcome, to
# nothing if it was not begun.
step() {
    name=$1 limit=$2 outcome='' code=0
    shift 2
    if has_ended "$name"; then return; fi
    started=$(date +%s)
    allowed=$((stage_end - started))
    if [ "$limit" -lt "$allowed" ]; then allowed=$limit; fi
    if [ "$allowed" -lt 1 ]; then
        note "$name" "$(when_stopped)" 0 'no time is left in this stage'
        return
    fi
    (cd "$root/tests" && timeout -k 5 "$allowed" "$@") >"$work/$name.log" 2>&1 || code=$?
    case $code in
    0) outcome=passed ;;
    77) outcome=skipped ;;
    124 | 137) outcome=$(when_stopped) ;;
    4) outcome=beyond ;;
    *) outcome=failed ;;
    esac
    said=$(grep '^dynmo: ' "$work/$name.log" || tail -n 1 "$work/$name.log")
    last=$(echo "$said" | tail -n 1 | tr -d '"\134[:cntrl:]' | cut -c 1-200)
    case $last in
    '{'*) last= ;;
    esac
    note "$name" "$outcome" $(($(date +%s) - started)) "$last"
}

# when_stopped: what is said of a step that time has ended: of its own limit it has failed.
when_stopped() {
    if [ -n "$all_end" ] && [ "$allowed" -lt "$limit" ]; then echo 'not run'; else echo stopped; fi
}

# note NAME OUTCOME SECONDS TEXT: a line of results.jsonl
note() {
    case $2 in 'not run') late=$2 not_run="$not_run $1" ;; esac
    printf '{"step":"%s","stage":%d,"outcome":"%s","seconds":%d,"says":"%s"}\n' \
        "$1" "$stage" "$2" "$3" "$4" >>"$results/results.jsonl"
    echo "$1: $2, $3 s $4" >&2
}

# sanitize TOOL SECONDS COMMAND...: the same under a tool of compute-sanitizer, which must find nothing. It rewrites
# every kernel that is loaded, so only those that run are: cuBLASLt has thousands.
sanitize() {
    tool=$1 seconds=$2
    shift 2
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null || true)
    sanitizer=$(echo "$sanitizer" | head -n 1)
    if [ -z "$sanitizer" ]; then
        note "$tool" skipped 0 'there is no compute-sanitizer on this machine'
        return
    fi
    # A test asks for more memory than there is; the programs look at what every call returns themselves.
    case $tool in memcheck) set -- --report-api-errors no "$@" ;; esac
    step "$tool" "$seconds" env CUDA_MODULE_LOADING=LAZY "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 "$@"
}

# pytorch NAME SECONDS SCRIPT: figures of PyTorch, which has libraries of its own, which ours must not replace.
pytorch() {
    if ! command -v "${PYTHON:-python3}" >/dev/null; then
        note "$1" skipped 0 "there is no ${PYTHON:-python3} on this machine"
        return
    fi
    step "$1" "$2" env LD_LIBRARY_PATH="$their_libraries" "${PYTHON:-python3}" "$root/tests/gpu/$3"
    keep_figures "$1"
}

# keep_figures NAME: the figures that a step has printed.
keep_figures() {
    if [ -z "$outcome" ]; then return; fi
    grep '^{"bench"' "$work/$1.log" >>"$results/figures.jsonl" || true
}

# write_model KIND NUMBERS: what the studies of this kind train; see run_all.sh for the numbers.
write_model() {
    kind=$1
    # shellcheck disable=SC2086 # a list of words
    set -- $2
    layers=$1 length=$4 sequences=$5 microbatches=$6 iterations=$7
    printf '{"model_type":"gpt2","n_layer":%d,"n_embd":%d,"n_head":%d,"n_positions":%d,"vocab_size":256,"tie_word_embeddings":false}\n' \
        "$1" "$2" "$3" "$4" >"$work/$kind-model.json"
}

# write_mixtral KIND OTHER: the same with experts, of the sizes of another kind's model.
write_mixtral() {
    sed 's/"gpt2"/"mixtral"/; s/n_layer/num_hidden_layers/; s/n_embd":\([0-9]*\)/hidden_size":\1,"intermediate_size":\1/
        s/n_head":\([0-9]*\)/num_attention_heads":\1,"num_key_value_heads":\1/; s/n_positions/max_position_embeddings/
        s/}/,"num_local_experts":8,"num_experts_per_tok":2}/' "$work/$2-model.json" >"$work/$1-model.json"
}

# write_study KIND NAME STAGES SCHEDULE ROW [MECHANISM [RANKS]]: NAME-STAGES-SCHEDULE.json; of replicas so many share experts
write_study() {
    key=
    if [ -n "${6:-}" ]; then key=",\"mechanism\":$(mechanism_of "$6")"; fi
    cat >"$work/$2-$3-$4.json" <<END
{"schema":"dynmo-study/1","name":"$2","model":"$1-model.json","hardware":"h100-sxm",
 "training":{"iterations":$iterations,"sequence_length":$length,"microbatch_size":$sequences,"microbatches":$microbatches,"dtype":"$dtype","expert_parallel":${7:-1}},
 "pipeline":{"stages":$3,"schedule":"$4"},
 "balancing":[$5],
 "execution":{"text":"$root/LICENSE","seed":1$key}}
END
}

# run_study KIND SECONDS STUDY OPTION...: its answer becomes a line of runs.jsonl.
run_study() {
    kind=$1 limit=$2 study=$3
    shift 3
    # shellcheck disable=SC2086 # a list of words
    step "$kind-$study" "$limit" ${launcher:-} "$bin/dynmo" run "$work/$study.json" "$@" --json
    if [ -n "$outcome" ]; then
        sed -n "s/^{/{\"step\":\"$kind\",\"study\":\"$study\",/p" "$work/$kind-$study.log" \
            >>"$results/runs.jsonl"
    fi
}

# hashes_of KIND: what the runs of a kind have learnt, each different result once.
hashes_of() {
    grep "\"step\":\"$1\"" "$results/runs.jsonl" |
        sed 's/.*\("loss_hash":"[0-9a-f]*"\).*\("state_hash":"[0-9a-f]*"\).*/\1 \2/; s/"//g' | sort -u
}

# same_losses KIND: whether all runs of this kind have had the same losses; states of ranks that share experts are others
# than those of ranks with all.
same_losses() {
    found=$(hashes_of "$1" | cut -d ' ' -f 1 | sort -u | grep -c . || true)
    runs=$(grep -c "\"step\":\"$1\"" "$results/runs.jsonl" || true)
    outcome=passed
    if [ "$found" -gt 1 ]; then
        outcome=failed
    elif [ "$runs" -lt 2 ]; then
        outcome=${late:-failed}
    fi
    note "same-losses-$1" "$outcome" 0 "$runs runs, $found different results"
}

# same_hashes KIND: whether all runs of this kind have learnt the same, and layers have moved in one.
same_hashes() {
    found=$(hashes_of "$1" | grep -c . || true)
    runs=$(grep -c "\"step\":\"$1\"" "$results/runs.jsonl" || true)
    moved=$(grep "\"step\":\"$1\"" "$results/runs.jsonl" | grep -c '"moved_layers":[1-9]' || true)
    outcome=passed
    if [ "$found" -gt 1 ]; then
        outcome=failed
    elif [ "$found" -eq 0 ] || [ "$moved" -eq 0 ]; then
        outcome=${late:-failed}
    fi
    note "same-bits-$1" "$outcome" 0 "$runs runs, $moved of them moved layers, $found different results"
}

# began MECHANISM: whether it did anything: the losses are others than without it.
began() {
    outcome=passed
    found=$(hashes_of "$1" | cut -d ' ' -f 1)
    without=$(hashes_of bits | cut -d ' ' -f 1)
    if [ -z "$found" ] || [ -z "$without" ]; then
        outcome=${late:-failed}
    elif [ "$found" = "$without" ]; then
        outcome=failed
    fi
    note "began-$1" "$outcome" 0 ''
}
