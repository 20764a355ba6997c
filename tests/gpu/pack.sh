#!/bin/sh
# Usage: tests/gpu/pack.sh DIR
# Packs what tests/gpu/run_all.sh and tests/multigpu/run_all.sh need, for a machine with a GPU but without our
# libraries: builds (Release, in build/), then copies the programs, the modules and the shared libraries
# that they load to DIR, and beside it DIR.tar.xz. Left out are the C library, which must be as new there as
# here, the driver, cuBLAS and NCCL, which run_all.sh looks for there, and Open MPI.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${1:?usage: tests/gpu/pack.sh DIR}
cmake -S "$root" -B "$root/build" -DCMAKE_BUILD_TYPE=Release >&2
cmake --build "$root/build" --parallel "$(nproc)" >&2
if [ ! -f "$root/build/dynmo_cuda.so" ]; then
    echo 'tests/gpu/pack.sh: this build has no CUDA' >&2
    exit 1
fi
mkdir -p "$target/lib"
for program in "$root"/build/dynmo "$root"/build/dynmo_*.so "$root"/build/tests/gpu_test_* \
    "$root"/build/tests/gpu_measure_* "$root"/build/tests/multigpu_test_*; do
    [ -f "$program" ] || continue
    strip -o "$target/$(basename "$program")" "$program"
    ldd "$program" | sed -n 's/.*=> \([^ ]*\) (.*/\1/p'
done | sort -u | while read -r library; do
    case $(basename "$library") in
    libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | libgcc_s.so* | ld-linux* | \
        libcuda.so* | libcublas* | libnccl* | libmpi* | libopen-* | libhwloc* | libevent* | libpmix*) ;;
    *) cp -L "$library" "$target/lib/" ;;
    esac
done
git -C "$root" describe --always --dirty >"$target/commit" 2>/dev/null || echo unknown >"$target/commit"
tar -C "$target" -cJf "$target.tar.xz" .
du -sh "$target" "$target.tar.xz"
