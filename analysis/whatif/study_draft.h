/// A study for who has no file yet: the parallelism, the schedules and the splits that somebody
/// would try first for a model on so many GPUs.
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// Zero-initialise, then fill by name.
typedef struct ana_draft_options {
    const char *model;    // path or shipped name; written as it is
    const char *hardware; // path or shipped name; written as it is
    int gpu_count;
    bool has_fewer;            // fewer GPUs are tried, too: gpu_count is the most
    int64_t token_count;       // of the whole training; 0: not known
    int global_batch;          // sequences; 0: up to 4 million tokens, that replicas divide
    int sequence_length;       // 0: what the model can take, at most 8192
    double price_per_gpu_hour; // below 0: not known
    const char *currency;      // with a price
    const char *price_date;    // with a price
} ana_draft_options;

/// Writes the study, laid out to be edited. Axes:
/// - training.tensor_parallel: 1, 2, 4, 8 within a node, as far as they divide the model
/// - training.expert_parallel: 1, 2, 4, 8, as far as they divide the experts; not of a dense model
/// - pipeline.stages: 1 and powers of two up to the layers, 64 and the GPUs
/// - training.microbatch_size: 1, 2, 4
/// - cluster.gpus, with has_fewer: up to 8 counts of whole nodes; the batch is held within 5 %
/// - training.recompute: none, selective, full; training.sharding: optimizer, parameters
/// - training.dtype: bfloat16 and float8, where the hardware multiplies in both
/// - pipeline.schedule: 1f1b, zb-h1, zb-v, interleaved-1f1b with 2 to 8 chunks
/// - balancing: even, tuned
/// Replicas fill the cluster; the optimizer is sharded, replicas fill nodes, reductions hide behind
/// the backward sweep.
///
/// @return what the model's and the hardware's file refuse
status ana_study_draft(const ana_draft_options *options, text_buffer *out, error_message *err);
