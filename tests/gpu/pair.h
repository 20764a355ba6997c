/// The same operation on the plain C backend and on a CUDA one, with the same input, and how far
/// their results are apart.
#pragma once

#include "exec/kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

typedef enum pair_type { PAIR_VALUES, PAIR_FLOATS, PAIR_INTS, PAIR_BYTES } pair_type;

/// Two backends; what is made over them is freed with them.
typedef struct gpu_pair {
    exec_kernels *cpu;
    exec_kernels *gpu;
    uint64_t seed;
    struct pair_array *arrays;
    const char *what; // is compared
    int live, most;   // rows that the GPU alone knows, of those that it is given; most 0: all
    int failure_count;
} gpu_pair;

/// An array on both: memory[0] of the cpu, memory[1] of the GPU.
typedef struct pair_array {
    struct pair_array *next;
    pair_type type;
    size_t count;
    void *memory[2];
} pair_array;

/// Aborts with the message where a backend cannot be opened.
void pair_open(gpu_pair *pair, exec_cuda_kind kind);
/// Returns the number of failures.
int pair_close(gpu_pair *pair);

/// Random values or floats around 0 of this size; values are rounded as the GPU's values are, so
/// that both backends start from the same numbers.
pair_array *pair_random(gpu_pair *pair, pair_type type, size_t count, float size);
/// The numbers given; of floats, ints or bytes.
pair_array *pair_given(gpu_pair *pair, pair_type type, const void *numbers, size_t count);
/// Random ints in [0, limit).
pair_array *pair_indices(gpu_pair *pair, size_t count, int limit);

/// Checks that the array is the same on both up to an error of relative size, as |a - b| / |b| over
/// the whole array; prints what is not.
void pair_check(gpu_pair *pair, const char *name, const pair_array *array, double tolerance);

/// Tolerance for results in values, and in fp32.
double pair_value_tolerance(const gpu_pair *pair);
