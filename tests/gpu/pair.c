#include "pair.h"

#include "tests/gpu/gpu_backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(status result, const error_message *err)
{
    if (result == STATUS_OK) return;
    fprintf(stderr, "%s\n", err->message);
    abort();
}

static void *memory_of(size_t bytes)
{
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    if (memory == NULL) abort();
    return memory;
}

static exec_kernels *side(const gpu_pair *pair, int which)
{
    return which == 0 ? pair->cpu : pair->gpu;
}

void pair_open(gpu_pair *pair, exec_cuda_kind kind)
{
    error_message err = {.code = STATUS_OK};
    must(exec_kernels_cpu_open(&pair->cpu), &err);
    must(gpu_open(kind, 0, 1, &pair->gpu, &err), &err);
    pair->seed = 1;
}

int pair_close(gpu_pair *pair)
{
    while (pair->arrays != NULL) {
        pair_array *array = pair->arrays;
        pair->arrays = array->next;
        for (int which = 0; which < 2; which++) {
            side(pair, which)->table->release(side(pair, which), array->memory[which]);
        }
        free(array);
    }
    pair->cpu->table->close(pair->cpu);
    pair->gpu->table->close(pair->gpu);
    return pair->failure_count;
}

static float next_random(gpu_pair *pair)
{
    pair->seed = pair->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(pair->seed >> 40) / (float)(1 << 24) * 2.0F - 1.0F;
}

static size_t element_bytes(const gpu_pair *pair, pair_type type, int which)
{
    if (type == PAIR_BYTES) return 1;
    return type == PAIR_VALUES ? (size_t)side(pair, which)->table->value_bytes : 4;
}

static pair_array *make(gpu_pair *pair, pair_type type, size_t count)
{
    pair_array *array = memory_of(sizeof *array);
    array->type = type;
    array->count = count;
    for (int which = 0; which < 2; which++) {
        exec_kernels *kernels = side(pair, which);
        array->memory[which] =
            kernels->table->allocate(kernels, count * element_bytes(pair, type, which));
    }
    array->next = pair->arrays;
    pair->arrays = array;
    return array;
}

/// Writes floats as values, by way of device floats.
static void put_values(exec_kernels *kernels, void *values, const float *numbers, size_t count)
{
    const exec_kernel_table *table = kernels->table;
    error_message err = {.code = STATUS_OK};
    void *floats = table->allocate(kernels, count * sizeof(float));
    table->to_device(kernels, floats, numbers, count * sizeof(float));
    table->to_values(kernels, floats, values, count);
    must(table->finish(kernels, &err), &err);
    table->release(kernels, floats);
}

/// bf16 is the upper half of fp32.
static float *get_values(exec_kernels *kernels, const void *values, size_t count)
{
    const exec_kernel_table *table = kernels->table;
    error_message err = {.code = STATUS_OK};
    const size_t value_bytes = (size_t)table->value_bytes;
    float *numbers = memory_of(count * sizeof(float));
    char *read = memory_of(count * value_bytes);
    table->to_host(kernels, read, values, count * value_bytes);
    must(table->finish(kernels, &err), &err);
    for (size_t index = 0; index < count; index++) {
        numbers[index] = 0;
        memcpy((char *)&numbers[index] + sizeof(float) - value_bytes, read + index * value_bytes,
               value_bytes);
    }
    free(read);
    return numbers;
}

/// fp32 copies even where values are fp32 and to_values would not.
static void put(gpu_pair *pair, pair_array *array, int which, const void *numbers)
{
    exec_kernels *kernels = side(pair, which);
    if (array->type == PAIR_VALUES && kernels->table->value_bytes != 4) {
        put_values(kernels, array->memory[which], numbers, array->count);
        return;
    }
    kernels->table->to_device(kernels, array->memory[which], numbers,
                              array->count * element_bytes(pair, array->type, which));
}

pair_array *pair_random(gpu_pair *pair, pair_type type, size_t count, float size)
{
    pair_array *array = make(pair, type, count);
    float *numbers = memory_of(count * sizeof *numbers);
    for (size_t index = 0; index < count; index++) {
        numbers[index] = size * next_random(pair);
    }
    put(pair, array, 1, numbers);
    if (type == PAIR_VALUES && pair->gpu->table->value_bytes != 4) {
        float *rounded = get_values(pair->gpu, array->memory[1], count);
        put(pair, array, 0, rounded);
        free(rounded);
    } else {
        put(pair, array, 0, numbers);
    }
    free(numbers);
    return array;
}

pair_array *pair_given(gpu_pair *pair, pair_type type, const void *numbers, size_t count)
{
    pair_array *array = make(pair, type, count);
    put(pair, array, 0, numbers);
    put(pair, array, 1, numbers);
    return array;
}

pair_array *pair_indices(gpu_pair *pair, size_t count, int limit)
{
    int *numbers = memory_of(count * sizeof *numbers);
    for (size_t index = 0; index < count; index++) {
        numbers[index] = (int)(fabsf(next_random(pair)) * (float)limit) % limit;
    }
    pair_array *array = pair_given(pair, PAIR_INTS, numbers, count);
    free(numbers);
    return array;
}

static float *get(const gpu_pair *pair, const pair_array *array, int which)
{
    exec_kernels *kernels = side(pair, which);
    if (array->type == PAIR_VALUES && kernels->table->value_bytes != 4) {
        return get_values(kernels, array->memory[which], array->count);
    }
    float *numbers = memory_of(array->count * sizeof *numbers);
    error_message err = {.code = STATUS_OK};
    kernels->table->to_host(kernels, numbers, array->memory[which], array->count * sizeof *numbers);
    must(kernels->table->finish(kernels, &err), &err);
    return numbers;
}

void pair_check(gpu_pair *pair, const char *name, const pair_array *array, double tolerance)
{
    float *expected = get(pair, array, 0), *actual = get(pair, array, 1);
    double difference = 0.0, size = 0.0;
    for (size_t index = 0; index < array->count; index++) {
        const double distance = (double)actual[index] - (double)expected[index];
        difference += distance * distance;
        size += (double)expected[index] * (double)expected[index];
    }
    const double error = size > 0.0 ? sqrt(difference / size) : sqrt(difference);
    if (!(error <= tolerance)) { // also where it is not a number
        printf("%s, %s: %s is off by %.3g, more than %.3g\n", pair->gpu->table->name, pair->what,
               name, error, tolerance);
        pair->failure_count++;
    }
    free(expected);
    free(actual);
}

double pair_value_tolerance(const gpu_pair *pair)
{
    return pair->gpu->table->value_bytes == 4 ? 4e-6 : 6e-3;
}
