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

#define FUNCTION(name) .name = exec_cpu_##name,

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
    // clang-format off
    EXEC_CPU_OPERATIONS(FUNCTION)
    // clang-format on
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
