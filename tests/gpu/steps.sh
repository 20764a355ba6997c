# shellcheck shell=sh disable=SC2154
# What tests/gpu/run_all.sh and tests/multigpu/run_all.sh share. They set root, results, bin and failed.

build() {
    cmake -S "$root" -B "$root/build" -DCMAKE_BUILD_TYPE=Release &&
        cmake --build "$root/build" --parallel "$(nproc)"
}

# find_programs: sets bin, building the programs if none were given; and where their libraries are.
find_programs() {
    if [ -z "$bin" ]; then
        if ! build >"$results/build.log" 2>&1; then
            tail -n 5 "$results/build.log" >&2
            echo 'the build failed' >&2
            exit 1
        fi
        bin=$results/bin
        mkdir -p "$bin"
        for program in "$root"/build/dynmo "$root"/build/dynmo_*.so "$root"/build/tests/gpu_* \
            "$root"/build/tests/multigpu_*; do
            if [ -f "$program" ]; then ln -sf "$program" "$bin/"; fi
        done
    fi
    bin=$(cd "$bin" && pwd)
    paths=$bin/lib:$(folder_of libcublasLt.so.13):$(folder_of libnccl.so.2):$(folder_of libcuda.so.1)
    export LD_LIBRARY_PATH="$paths${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    if ! "$bin/dynmo" --version >/dev/null; then
        echo "$bin/dynmo does not start" >&2
        exit 1
    fi
}

# folder_of LIBRARY: where it lies, if the loader may not find it by itself.
folder_of() {
    for place in /usr/local/cuda*/lib64 /usr/local/cuda*/targets/x86_64-linux/lib /usr/local/nvidia \
        /usr/lib/x86_64-linux-gnu /opt /usr/local/lib /usr/lib/python3; do
        found=$(find "$place" -name "$1" 2>/dev/null | head -n 1)
        if [ -n "$found" ]; then
            dirname "$found"
            return
        fi
    done
}

# write_facts KIND: the machine, as the first line of results.jsonl.
write_facts() {
    gpus=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null |
        head -n 16 | tr '\n' ';' || true)
    commit=$(git -C "$root" describe --always --dirty 2>/dev/null || cat "$bin/commit" 2>/dev/null ||
        echo unknown)
    nvcc=$(nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p' || true)
    printf '{"step":"facts","kind":"%s","gpu":"%s","commit":"%s","nvcc":"%s","system":"%s"}\n' \
        "$1" "$gpus" "$commit" "$nvcc" "$(uname -sr), $(nproc) cores" >"$results/results.jsonl"
    : >"$results/figures.jsonl"
}

# step NAME SECONDS COMMAND...: runs it in tests/ and notes how it ended; its output is in NAME.log.
step() {
    name=$1 limit=$2
    shift 2
    started=$(date +%s)
    code=0
    (cd "$root/tests" && timeout -k 5 "$limit" "$@") >"$results/$name.log" 2>&1 || code=$?
    case $code in
    0) outcome=passed ;;
    77) outcome=skipped ;;
    124 | 137) outcome=stopped ;;
    *) outcome=failed ;;
    esac
    case $outcome in
    stopped | failed) failed=$((failed + 1)) ;;
    esac
    last=$(tail -n 1 "$results/$name.log" | tr -d '"\134' | cut -c 1-200)
    case $last in
    '{'*) last= ;;
    esac
    printf '{"step":"%s","outcome":"%s","seconds":%d,"says":"%s"}\n' "$name" "$outcome" \
        $(($(date +%s) - started)) "$last" >>"$results/results.jsonl"
    echo "$name: $outcome, $(($(date +%s) - started)) s $last" >&2
}

# keep_figures NAME: the figures that a step has printed.
keep_figures() {
    grep '^{"bench"' "$results/$1.log" >>"$results/figures.jsonl" || true
}

# write_model: by layers, width, heads and length.
write_model() {
    printf '{"model_type":"gpt2","n_layer":%d,"n_embd":%d,"n_head":%d,"n_positions":%d,"vocab_size":256,"tie_word_embeddings":false}\n' \
        "$layers" "$width" "$heads" "$length" >"$results/model.json"
}

# write_study NAME STAGES ROWS MECHANISM: RESULTS/NAME-STAGES.json
write_study() {
    case $4 in
    none) key= ;;
    *) key=",$(tr '\n' ' ' <"$root/models/studies/run/$4.json" | sed -n 's/.*\("mechanism": {[^}]*}\).*/\1/p')" ;;
    esac
    cat >"$results/$1-$2.json" <<END
{"schema":"dynmo-study/1","name":"$1","model":"model.json","hardware":"h200-sxm",
 "training":{"iterations":$iterations,"sequence_length":$length,"microbatch_size":$sequences,"microbatches":$microbatches,"dtype":"bfloat16"},
 "pipeline":{"stages":$2,"schedule":"zb-h1"},
 "balancing":[$3],
 "execution":{"text":"$root/README.md","seed":1$key}}
END
}

# run_study KIND SECONDS STUDY OPTION...: its answer becomes a line of runs.jsonl.
run_study() {
    kind=$1 limit=$2 study=$3
    shift 3
    # shellcheck disable=SC2086 # a list of words
    step "$kind-$study" "$limit" ${launcher:-} "$bin/dynmo" run "$results/$study.json" "$@" --json
    sed -n "s/^{/{\"step\":\"$kind\",\"study\":\"$study\",/p" "$results/$kind-$study.log" \
        >>"$results/runs.jsonl"
}

# same_hashes KIND: whether all runs of this kind have learnt the same.
same_hashes() {
    hashes=$(grep "\"step\":\"$1\"" "$results/runs.jsonl" |
        sed 's/.*\("loss_hash":"[0-9a-f]*","state_hash":"[0-9a-f]*"\).*/\1/' | sort -u | grep -c . || true)
    runs=$(grep -c "\"step\":\"$1\"" "$results/runs.jsonl" || true)
    outcome=passed
    if [ "$hashes" -ne 1 ]; then
        outcome=failed
        failed=$((failed + 1))
    fi
    printf '{"step":"same-bits-%s","outcome":"%s","seconds":0,"says":"%d runs, %d different results"}\n' \
        "$1" "$outcome" "$runs" "$hashes" >>"$results/results.jsonl"
    echo "same bits: $outcome, $runs runs, $hashes different results" >&2
}
