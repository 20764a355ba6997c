/// What CUDA C++ adds to C++, as far as the kernels use it: they compile as they are with this
/// header in place of the toolkit's.
#pragma once

#include "cuda_runtime_api.h"
#include "emulation.h"
#include "lanes.h"

#include <algorithm>
#include <cmath>
#include <stdint.h>
#include <string.h>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

using std::min;

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_count = 1, unsigned y_count = 1, unsigned z_count = 1)
        : x(x_count), y(y_count), z(z_count)
    {
    }
};

struct uint4 {
    uint32_t x, y, z, w;
};

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return uint4{x, y, z, w};
}

static inline float rsqrtf(float value)
{
    return 1.0f / sqrtf(value);
}

static inline void __syncthreads()
{
    lanes_barrier(false);
}

static inline int __syncthreads_or(int value)
{
    return lanes_barrier(value != 0);
}

/// A lane's share of a shuffle.
template <typename Number> struct shuffle_share {
    Number value;
    int distance;
};

template <typename Number> void shuffle_xor(const void *const in[32], void *const out[32])
{
    for (int lane = 0; lane < 32; lane++) {
        const int from = lane ^ ((const shuffle_share<Number> *)in[lane])->distance;
        *(Number *)out[lane] = ((const shuffle_share<Number> *)in[from])->value;
    }
}

template <typename Number> Number __shfl_xor_sync(unsigned, Number value, int distance)
{
    const shuffle_share<Number> share = {value, distance};
    Number result;
    lanes_together(shuffle_xor<Number>, &share, &result);
    return result;
}

static inline void ballot(const void *const in[32], void *const out[32])
{
    unsigned votes = 0;
    for (int lane = 0; lane < 32; lane++) {
        if (*(const int *)in[lane] != 0) votes |= 1u << lane;
    }
    for (int lane = 0; lane < 32; lane++) {
        *(unsigned *)out[lane] = votes;
    }
}

static inline unsigned __ballot_sync(unsigned, int vote)
{
    unsigned votes;
    lanes_together(ballot, &vote, &votes);
    return votes;
}

static inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

static inline void nothing_together(const void *const[32], void *const[32])
{
}

static inline void __syncwarp()
{
    lanes_together(nothing_together, nullptr, nullptr);
}

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
};

enum { cudaFuncAttributeMaxDynamicSharedMemorySize };

/// What a launch may ask for without an attribute, and with one on a Hopper.
enum { SHARED_BYTES = 48 * 1024, SHARED_BYTES_MAX = 227 * 1024 };

template <typename Kernel> cudaError_t cudaFuncSetAttribute(Kernel *kernel, int, int bytes)
{
    if (bytes > SHARED_BYTES_MAX) return cudaErrorInvalidValue;
    gpu::allow_shared_bytes((const void *)kernel, (size_t)bytes);
    return cudaSuccess;
}

/// As a GPU refuses it: nothing to run, more blocks than it numbers, or more shared memory than
/// the kernel may have.
static inline cudaError_t refusal_of(const cudaLaunchConfig_t *config, const void *kernel)
{
    const dim3 &grid = config->gridDim, &block = config->blockDim;
    const bool is_empty = grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0;
    if (is_empty || grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535 || block.x > 1024) {
        return cudaErrorInvalidConfiguration;
    }
    const bool fits = config->dynamicSmemBytes <= SHARED_BYTES ||
                      config->dynamicSmemBytes <= gpu::allowed_shared_bytes(kernel);
    return fits ? cudaSuccess : cudaErrorInvalidValue;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                               Arguments... arguments)
{
    struct call {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> arguments;
    };
    const call made = {kernel, std::tuple<Parameters...>(arguments...)};
    const cudaError_t refused = refusal_of(config, (const void *)kernel);
    if (refused != cudaSuccess) return refused;
    const lanes_index grid = {config->gridDim.x, config->gridDim.y, config->gridDim.z};
    const unsigned lane_count = config->blockDim.x;
    const size_t shared_bytes = config->dynamicSmemBytes;
    return gpu::enqueue_work(config->stream, [=] {
        lanes_run(
            grid, lane_count, shared_bytes,
            [](const void *of) {
                std::apply(((const call *)of)->kernel, ((const call *)of)->arguments);
            },
            &made);
    });
}
