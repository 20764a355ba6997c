/// What the CUDA kernels share: values of either kind as floats, wide loads, sums over a warp and
/// over a block in fixed order, and the launch.
///
/// Only calls and keywords that tests/gpu/emulation knows are used, so that every kernel also runs
/// on the host there.
#pragma once

#include "exec/cuda/kernels_cuda.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

enum { WARP_LANES = 32, BLOCK_LANES = 256, BLOCK_WARPS = BLOCK_LANES / WARP_LANES };
static const unsigned WHOLE_WARP = 0xffffffffu;

typedef __nv_bfloat16 bf16;

__device__ inline float to_float(float value)
{
    return value;
}

__device__ inline float to_float(bf16 value)
{
    return __bfloat162float(value);
}

template <typename Value> __device__ inline Value from_float(float value);

template <> __device__ inline float from_float<float>(float value)
{
    return value;
}

template <> __device__ inline bf16 from_float<bf16>(float value)
{
    return __float2bfloat16(value);
}

/// Values that are loaded and stored at once.
template <typename Value, int COUNT> struct alignas(sizeof(Value) * COUNT) pack {
    Value value[COUNT];
};

/// Values in 16 bytes.
template <typename Value> constexpr int pack_values()
{
    return 16 / (int)sizeof(Value);
}

/// Whether an array can be read in packs of 16 bytes.
static inline bool is_wide(const void *memory)
{
    return (uintptr_t)memory % 16 == 0;
}

/// A number that orders as a float does. -0 counts as 0, and what is not a number has some place
/// too.
__device__ inline unsigned key_of(float number)
{
    const float value = number + 0.0f;
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// Rows that a block of warps treats, one per warp.
static inline unsigned warp_grid(int rows)
{
    return (unsigned)((rows + BLOCK_WARPS - 1) / BLOCK_WARPS);
}

__device__ inline int warp_row()
{
    return (int)(blockIdx.x * BLOCK_WARPS + threadIdx.x / WARP_LANES);
}

__device__ inline int warp_lane()
{
    return (int)(threadIdx.x % WARP_LANES);
}

/// The sum over the lanes of a warp, on all of them: a tree, the same on every machine.
template <typename Number> __device__ inline Number warp_sum(Number value)
{
    for (int distance = WARP_LANES / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(WHOLE_WARP, value, distance);
    }
    return value;
}

__device__ inline float warp_max(float value)
{
    for (int distance = WARP_LANES / 2; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(WHOLE_WARP, value, distance));
    }
    return value;
}

/// The sum over the BLOCK_LANES lanes of a block, on all of them: warps in ascending order.
template <typename Number> __device__ inline Number block_sum(Number value)
{
    __shared__ Number of_warp[BLOCK_WARPS];
    value = warp_sum(value);
    __syncthreads(); // the sum before may still be read
    if (threadIdx.x % WARP_LANES == 0) of_warp[threadIdx.x / WARP_LANES] = value;
    __syncthreads();
    Number sum = of_warp[0];
    for (int warp = 1; warp < BLOCK_WARPS; warp++) {
        sum += of_warp[warp];
    }
    return sum;
}

/// A piece of [first, end) for each lane of a block, so that what lanes find stays in order.
struct lane_piece {
    int begin, end;

    __device__ lane_piece(int first, int past)
    {
        const int length = (past - first + BLOCK_LANES - 1) / BLOCK_LANES;
        begin = min(past, first + (int)threadIdx.x * length);
        end = min(past, begin + length);
    }
};

/// What the lanes before this one have found, and all lanes.
struct found_before {
    int before, all;

    __device__ explicit found_before(int own)
    {
        __shared__ int of_lane[BLOCK_LANES];
        of_lane[threadIdx.x] = own;
        __syncthreads();
        before = all = 0;
        for (int lane = 0; lane < BLOCK_LANES; lane++) {
            if (lane < (int)threadIdx.x) before += of_lane[lane];
            all += of_lane[lane];
        }
        __syncthreads();
    }
};

/// What a masked score is: finite, so that a row may meet a tile of which it attends to nothing
/// (the next score that counts makes nothing of it), and a power of two, so that scaling it is
/// exact.
static constexpr float MASKED_SCORE = -0x1p100f;

/// Whether a row attends to a row of a key block that its block lists.
__device__ inline bool attends(const exec_cuda_lists &shape, int row, int key)
{
    return key <= row && (shape.first_key == nullptr || key >= shape.first_key[row]);
}

/// Blocks for a loop over count elements with a stride of the whole grid: enough for any GPU.
static inline unsigned grid_for(size_t count)
{
    const size_t blocks = (count + BLOCK_LANES - 1) / BLOCK_LANES;
    return (unsigned)(blocks < 4096 ? blocks : 4096);
}

/// How many of the rows that a kernel is given it works on (limit_rows).
struct row_limit {
    const int *count; // nullptr: all
    int most;

    __device__ bool excludes(int row) const
    {
        return count != nullptr && row >= *count;
    }
    __device__ int of(int rows) const
    {
        return count != nullptr ? min(rows, *count) : rows;
    }
    /// Of so many elements or packs of all rows.
    __device__ size_t of_all(size_t all) const
    {
        return count != nullptr ? all / most * *count : all;
    }
};

static inline row_limit limit_of(exec_kernels *kernels)
{
    const exec_cuda_queue *queue = (const exec_cuda_queue *)kernels;
    return {queue->extent != nullptr ? queue->extent + 1 : nullptr, queue->most};
}

/// Whether so many elements, or those of each row where only some count, fill packs.
static inline bool fills_packs(const row_limit &limit, size_t count, int pack_count)
{
    return (limit.count != nullptr ? count / limit.most : count) % pack_count == 0;
}

static inline bool is_bf16(exec_kernels *kernels)
{
    return ((const exec_cuda_queue *)kernels)->kind == EXEC_CUDA_BF16;
}

/// Enqueues kernel(arguments...); an empty grid is nothing to do.
template <typename... Parameters, typename... Arguments>
static void launch(void (*kernel)(Parameters...), dim3 grid, unsigned lanes, size_t shared_bytes,
                   exec_kernels *kernels, Arguments... arguments)
{
    const size_t always_there = 48 * 1024;
    const exec_cuda_queue *queue = (const exec_cuda_queue *)kernels;
    if (grid.x == 0 || grid.y == 0 || queue->failure.code != STATUS_OK) return;
    if (shared_bytes > always_there) {
        exec_cuda_note(kernels,
                       (int)cudaFuncSetAttribute(
                           kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes),
                       "room in shared memory");
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(lanes);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = (cudaStream_t)queue->stream;
    exec_cuda_note(kernels,
                   (int)cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
                   "the launch of a kernel");
}

/// The same of the kernel for the backend's values, in blocks of BLOCK_LANES: memory of values is
/// handed over as void *.
template <typename... Halves, typename... Floats, typename... Arguments>
static void launch_either(void (*of_bf16)(Halves...), void (*of_float)(Floats...), dim3 grid,
                          size_t shared_bytes, exec_kernels *kernels, Arguments... arguments)
{
    if (is_bf16(kernels)) {
        launch(of_bf16, grid, BLOCK_LANES, shared_bytes, kernels, arguments...);
    } else {
        launch(of_float, grid, BLOCK_LANES, shared_bytes, kernels, arguments...);
    }
}
