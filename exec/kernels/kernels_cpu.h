/// The plain C backend's parts, one source file per noun. Internal to kernels_cpu*.c.
///
/// Every sum has an order of its own, which no compiler may change (-ffp-contract=off, no
/// -ffast-math): products of matrices add their terms one by one in ascending order; sums over a
/// row run in EXEC_CPU_LANES partial sums. So wider vectors compute the same bits.
#pragma once

#include "exec/kernels/kernels.h"

#include <stddef.h>

enum {
    EXEC_CPU_LANES = 8,          ///< partial sums of a sum over a row
    EXEC_CPU_PANEL_COLUMNS = 16, ///< columns of b that a product packs
    EXEC_CPU_PANEL_INNER = 256   ///< and how many of their elements at a time: 16 KiB
};

/// Functions for processors with vectors of 256 and 512 bits are compiled beside those for all,
/// most of the same source. An instruction set other than x86-64 has one width.
#if defined(__x86_64__)
#define EXEC_CPU_WIDE __attribute__((target("avx2")))
#define EXEC_CPU_WIDEST __attribute__((target("avx512f")))
#else
#define EXEC_CPU_WIDE
#define EXEC_CPU_WIDEST
#endif
#define EXEC_CPU_INLINE static inline __attribute__((always_inline))

typedef struct exec_cpu {
    exec_kernels kernels; // first member
    bool is_wide;         // functions marked EXEC_CPU_WIDE may run
    bool is_widest;       // and those marked EXEC_CPU_WIDEST
    float *scratch;       // [scratch_count]
    size_t scratch_count;
    _Alignas(64) float panel[EXEC_CPU_PANEL_INNER * EXEC_CPU_PANEL_COLUMNS];
} exec_cpu;

/// @return at least count floats until the next call
float *exec_cpu_scratch(exec_cpu *cpu, size_t count);

/// c[rows][columns] = a b, or +=, of elements at any distance: element (i, k) of a is
/// a[i * a_row + k * a_inner], (k, j) of b is b[k * b_inner + j * b_column], rows of c are c_row
/// apart.
typedef struct exec_cpu_product {
    int rows, columns, inner;
    const float *a;
    ptrdiff_t a_row, a_inner;
    const float *b;
    ptrdiff_t b_inner, b_column;
    float *c;
    ptrdiff_t c_row;
    bool accumulates;
} exec_cpu_product;

void exec_cpu_multiply(exec_cpu *cpu, const exec_cpu_product *product);

#define EXEC_CPU_DECLARE(name) EXEC_KERNEL_DECLARE(cpu, name)
#define EXEC_CPU_OPERATIONS(_)                                                                     \
    EXEC_KERNEL_OPERATIONS(_)                                                                      \
    _(matmul) _(csr_matmul) _(csr_sample) _(held_squares) _(sum_of_squares)
EXEC_CPU_OPERATIONS(EXEC_CPU_DECLARE)
