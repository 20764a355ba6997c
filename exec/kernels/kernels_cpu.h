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
    error_message failure; // the first since finish; code STATUS_OK: none
    _Alignas(64) float panel[EXEC_CPU_PANEL_INNER * EXEC_CPU_PANEL_COLUMNS];
} exec_cpu;

/// @return at least count floats until the next call; NULL and a failure noted if out of memory
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
void exec_cpu_matmul(exec_kernels *kernels, const exec_matmul *shape, const void *a, const void *b,
                     void *c);

void exec_cpu_layer_norm(exec_kernels *kernels, const void *input, const void *weight,
                         const void *bias, int rows, int width, void *output, float *mean,
                         float *rstd);
void exec_cpu_layer_norm_input(exec_kernels *kernels, const void *output_gradient,
                               const void *input, const void *weight, const float *mean,
                               const float *rstd, int rows, int width, void *input_gradient);
void exec_cpu_layer_norm_weight(exec_kernels *kernels, const void *output_gradient,
                                const void *input, const float *mean, const float *rstd, int rows,
                                int width, float *dweight, float *dbias);

void exec_cpu_swiglu(exec_kernels *kernels, const void *input, int rows, int width, void *output);
void exec_cpu_swiglu_input(exec_kernels *kernels, const void *input, const void *output_gradient,
                           int rows, int width, void *input_gradient);
void exec_cpu_spread_heads(exec_kernels *kernels, const exec_heads *heads, const void *from,
                           int rows, void *qkv);
void exec_cpu_spread_heads_input(exec_kernels *kernels, const exec_heads *heads,
                                 const void *qkv_gradient, int rows, void *gradient);

void exec_cpu_attention(exec_kernels *kernels, const exec_attention *shape, const void *qkv,
                        void *output, float *log_sum);
void exec_cpu_attention_input(exec_kernels *kernels, const exec_attention *shape, const void *qkv,
                              const void *output, const float *log_sum, const void *output_gradient,
                              void *qkv_gradient);

void exec_cpu_gelu(exec_kernels *kernels, const void *input, void *output, size_t count);
void exec_cpu_gelu_input(exec_kernels *kernels, const void *input, void *gradient, size_t count);
void exec_cpu_cross_entropy(exec_kernels *kernels, const void *logits, const int *target, int rows,
                            int classes, float scale, float *loss, void *logits_gradient);

void exec_cpu_add(exec_kernels *kernels, void *to, const void *from, size_t count);
void exec_cpu_add_floats(exec_kernels *kernels, float *to, const float *from, size_t count);
void exec_cpu_add_bias(exec_kernels *kernels, void *values, const void *bias, int rows,
                       int columns);
void exec_cpu_column_sums(exec_kernels *kernels, const void *values, int rows, int columns,
                          float *sum);
void exec_cpu_embed(exec_kernels *kernels, const int *token, const int *position,
                    const void *token_table, const void *position_table, int rows, int width,
                    void *output);
void exec_cpu_embed_weight(exec_kernels *kernels, const void *output_gradient, const int *token,
                           const int *position, int rows, int width, int token_count,
                           int position_count, float *token_gradient, float *position_gradient);
void exec_cpu_gather_rows(exec_kernels *kernels, const void *from, const int *row, int rows,
                          int width, void *to);
void exec_cpu_scatter_rows(exec_kernels *kernels, const void *from, const int *row, int rows,
                           int width, void *to);
void exec_cpu_combine_rows(exec_kernels *kernels, const void *from, const int *first,
                           const int *source, const float *weight, int rows, int width, void *to);
void exec_cpu_scale_rows(exec_kernels *kernels, const void *from, const float *weight, int rows,
                         int width, void *to);
void exec_cpu_row_dots(exec_kernels *kernels, const void *a, const int *row_a, const void *b,
                       const int *row_b, int rows, int width, float *dot);

double exec_cpu_sum_of_squares(exec_kernels *kernels, const float *values, size_t count);
void exec_cpu_adamw(exec_kernels *kernels, const exec_adamw *options, float *master, float *moment1,
                    float *moment2, const float *gradient, const uint8_t *keep, void *weights,
                    size_t count);
void exec_cpu_mask(exec_kernels *kernels, float *values, const uint8_t *keep, size_t count);
