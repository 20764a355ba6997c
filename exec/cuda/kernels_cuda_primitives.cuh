/// What CUDA C++ has no function for: instructions of the matrix units, copies into shared memory
/// that run after the lanes, and shared memory whose size the launch chooses.
///
/// tests/gpu/emulation has a file of the same name that does the same on the host.
#pragma once

#include <cuda_bf16.h>
#include <stdint.h>

/// The launch's shared memory, aligned to 16 bytes.
template <typename Element> __device__ inline Element *launch_shared()
{
    extern __shared__ __align__(16) unsigned char launch_shared_memory[];
    return (Element *)launch_shared_memory;
}

__device__ inline uint32_t shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/// Begins to copy 16 bytes of global memory into shared memory.
__device__ inline void copy_16_behind(void *shared, const void *global)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)),
                 "l"(global)
                 : "memory");
}

/// Closes the group of copies begun so far.
__device__ inline void close_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most OPEN of the lane's closed groups are still being copied.
template <int OPEN> __device__ inline void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(OPEN) : "memory");
}

/// Four matrices of 8 x 8 bf16. Lane l gives the address of row l % 8 of matrix l / 8, 16 bytes in
/// shared memory, and gets of each matrix row l / 4, columns 2 * (l % 4) and the next.
__device__ inline void load_matrices(uint32_t (&part)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(part[0]), "=r"(part[1]), "=r"(part[2]), "=r"(part[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// The same of the four transposed matrices.
__device__ inline void load_matrices_transposed(uint32_t (&part)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(part[0]), "=r"(part[1]), "=r"(part[2]), "=r"(part[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// sum [16 x 8] += a [16 x 16] b [16 x 8], spread over a warp. With g = lane / 4 and t = lane % 4:
/// a holds (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), each with the next column; b holds
/// (2t, g), (2t + 8, g), each with the next row; sum holds (g, 2t), (g, 2t + 1), (g + 8, 2t),
/// (g + 8, 2t + 1). Source: the PTX manual, mma.m16n8k16.
__device__ inline void multiply_add(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
