#!/bin/sh
# Usage: tests/gpu/pack.sh DIR [--emulated]
# Packs what tests/gpu/run_all.sh and tests/multigpu/run_all.sh need into DIR and DIR.tar.gz, for a machine with a GPU
# and its libraries and nothing of ours: the scripts, the programs (Release, in build-pack/, machine code for
# compute capabilities 8.0, 9.0 and 10.0), and the shared libraries that they load. Left out are the C library,
# which must be as new there as here, the driver, cuBLAS and NCCL, which run_all.sh looks for there, and
# Open MPI. There: tar -xzf NAME.tar.gz; sh NAME/tests/gpu/run_all.sh RESULTS --stage 1
# --emulated puts the emulated GPU in the place of the modules: for a trial on a machine without one.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${1:?usage: tests/gpu/pack.sh DIR [--emulated]}
build=$root/build-pack
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES='80-real;90-real;100' \
    -DCMAKE_MODULE_LINKER_FLAGS='-static-libstdc++ -static-libgcc' \
    -DCMAKE_EXE_LINKER_FLAGS='-static-libgcc' >&2
modules="$build/dynmo_cuda.so $build/dynmo_nccl.so"
cmake --build "$build" --parallel "$(nproc)" --target dynmo dynmo_mpi dynmo_cuda dynmo_nccl \
    gpu_emulated_cuda_module gpu_emulated_nccl_module gpu_test_kernels gpu_test_training gpu_measure_kernels gpu_measure_cublaslt \
    multigpu_test_messages >&2
rm -rf "$target"
mkdir -p "$target/bin/lib" "$target/tests/gpu" "$target/tests/multigpu"
if [ "${2:-}" = --emulated ]; then
    modules=$(echo "$build"/tests/emulated/*.so)
    : >"$target/bin/emulated"
fi
for program in "$build/dynmo" $modules "$build/dynmo_mpi.so" \
    "$build"/tests/gpu_test_* "$build"/tests/gpu_measure_* "$build"/tests/multigpu_test_*; do
    strip -o "$target/bin/$(basename "$program")" "$program"
    ldd "$program" | sed -n 's/.*=> \([^ ]*\) (.*/\1/p'
done | sort -u | while read -r library; do
    case $(basename "$library") in
    libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | ld-linux* | libudev* | \
        libgcc_s* | libstdc++* | \
        libcuda.so* | libcublas* | libnccl* | libmpi* | libopen-* | libhwloc* | libevent* | libpmix*) ;;
    *) cp -L "$library" "$target/bin/lib/" ;;
    esac
done
cp "$root/LICENSE" "$target/"
cp "$root"/tests/gpu/*.sh "$root"/tests/gpu/*.py "$target/tests/gpu/"
cp "$root/tests/multigpu/run_all.sh" "$target/tests/multigpu/"
git -C "$root" describe --always --dirty >"$target/bin/commit" 2>/dev/null || echo unknown >"$target/bin/commit"
tar -C "$(dirname "$target")" -czf "$target.tar.gz" "$(basename "$target")"
bytes=$(wc -c <"$target.tar.gz")
echo "$target.tar.gz: $bytes bytes"
if [ "$bytes" -gt 20000000 ]; then
    echo 'tests/gpu/pack.sh: more than 20 MB' >&2
    exit 1
fi
