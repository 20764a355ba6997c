/// How a dense transformer was trained, as far as the time of an iteration depends on it.
#pragma once

#include <stdint.h>

typedef struct ana_run_shape {
    int64_t gpu_count; // tensor * data * pipeline
    int64_t global_batch_count;
    int64_t microbatch_size; // sequences of one microbatch of one replica
    int64_t hidden_size;
    int64_t head_count; // attention heads
    int64_t layer_count;
    int64_t sequence_length; // tokens
    int64_t vocabulary_size;
    int64_t tensor_degree;
    int64_t data_degree;
    int64_t pipeline_degree; // 1F1B, even split
} ana_run_shape;

enum { ANA_SHAPE_FIELDS = 11 };

/// Microbatches of one replica and iteration.
static inline int64_t ana_run_microbatches(const ana_run_shape *shape)
{
    return shape->global_batch_count / (shape->microbatch_size * shape->data_degree);
}
