#include "exec/kernels/kernels_cpu.h"
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static void *cpu_allocate(exec_kernels *kernels, size_t bytes)
{
    (void)kernels;
    return memory_aligned(ALIGNMENT, bytes);
}

static void cpu_release(exec_kernels *kernels, void *memory)
{
    (void)kernels;
    free(memory);
}

static void cpu_copy(exec_kernels *kernels, void *to, const void *from, size_t bytes)
{
    (void)kernels;
    if (bytes > 0) memcpy(to, from, bytes);
}

static void cpu_clear(exec_kernels *kernels, void *memory, size_t bytes)
{
    (void)kernels;
    if (bytes > 0) memset(memory, 0, bytes);
}

static void cpu_to_values(exec_kernels *kernels, const float *from, void *values, size_t count)
{
    if ((const void *)from != values) cpu_copy(kernels, values, from, count * sizeof(float));
}

static status cpu_finish(exec_kernels *kernels, error_message *err)
{
    (void)kernels;
    (void)err;
    return STATUS_OK;
}

static void cpu_close(exec_kernels *kernels)
{
    free(((exec_cpu *)kernels)->scratch);
    free(kernels);
}

float *exec_cpu_scratch(exec_cpu *cpu, size_t count)
{
    if (count > cpu->scratch_count) {
        free(cpu->scratch);
        cpu->scratch = memory_array(count, sizeof *cpu->scratch);
        cpu->scratch_count = count;
    }
    return cpu->scratch;
}

static const exec_kernel_table cpu_table = {
    .name = "cpu",
    .value_bytes = sizeof(float),
    .has_host_memory = true,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .to_device = cpu_copy,
    .to_host = cpu_copy,
    .copy = cpu_copy,
    .clear = cpu_clear,
    .to_values = cpu_to_values,
    .finish = cpu_finish,
    .check = cpu_finish,
    .close = cpu_close,
    .matmul = exec_cpu_matmul,
    .group_matmul = exec_cpu_group_matmul,
    .route = exec_cpu_route,
    .route_input = exec_cpu_route_input,
    .csr_matmul = exec_cpu_csr_matmul,
    .csr_sample = exec_cpu_csr_sample,
    .held_squares = exec_cpu_held_squares,
    .add = exec_cpu_add,
    .add_floats = exec_cpu_add_floats,
    .add_bias = exec_cpu_add_bias,
    .column_sums = exec_cpu_column_sums,
    .layer_norm = exec_cpu_layer_norm,
    .layer_norm_input = exec_cpu_layer_norm_input,
    .layer_norm_weight = exec_cpu_layer_norm_weight,
    .gelu = exec_cpu_gelu,
    .gelu_input = exec_cpu_gelu_input,
    .swiglu = exec_cpu_swiglu,
    .swiglu_input = exec_cpu_swiglu_input,
    .spread_heads = exec_cpu_spread_heads,
    .spread_heads_input = exec_cpu_spread_heads_input,
    .choose_blocks = exec_cpu_choose_blocks,
    .attention = exec_cpu_attention,
    .attention_input = exec_cpu_attention_input,
    .embed = exec_cpu_embed,
    .embed_weight = exec_cpu_embed_weight,
    .cross_entropy = exec_cpu_cross_entropy,
    .gather_rows = exec_cpu_gather_rows,
    .scatter_rows = exec_cpu_scatter_rows,
    .combine_rows = exec_cpu_combine_rows,
    .choose_rows = exec_cpu_choose_rows,
    .gate_input = exec_cpu_gate_input,
    .find_live = exec_cpu_find_live,
    .leave_rows = exec_cpu_leave_rows,
    .judge_rows = exec_cpu_judge_rows,
    .scale_rows = exec_cpu_scale_rows,
    .row_dots = exec_cpu_row_dots,
    .sum_of_squares = exec_cpu_sum_of_squares,
    .adamw = exec_cpu_adamw,
    .mask = exec_cpu_mask,
};

/// Which of the functions for wide vectors may run here.
static void find_width(exec_cpu *cpu)
{
#if defined(__x86_64__)
    cpu->is_wide = __builtin_cpu_supports("avx2") != 0;
    cpu->is_widest = cpu->is_wide && __builtin_cpu_supports("avx512f") != 0;
#else
    (void)cpu;
#endif
}

status exec_kernels_cpu_open(exec_kernels **kernels)
{
    exec_cpu *cpu = memory_aligned(_Alignof(exec_cpu), sizeof *cpu);
    cpu->kernels.table = &cpu_table;
    find_width(cpu);
    *kernels = &cpu->kernels;
    return STATUS_OK;
}
