#include "analysis/study/setup_parts.h"

#include <inttypes.h>

/// GPUs of one replica.
static int64_t replica_gpus(const ana_study *study)
{
    return (int64_t)study->stage_count * study->parallel.tensor * study->parallel.context;
}

status ana_setup_replicas(ana_setup *setup, arena *memory, error_message *err)
{
    ana_study *study = setup->study;
    const int64_t gpus = replica_gpus(study);
    if (study->gpu_count == 0) return STATUS_OK;
    const int64_t replicas = study->fills_cluster ? study->gpu_count / gpus : study->parallel.data;
    if (replicas == 0 || replicas * gpus > study->gpu_count) {
        return error_set(err, STATUS_INFEASIBLE,
                         "%s: cluster.gpus: data %" PRId64
                         " x tensor %d x context %d x pipeline %d "
                         "need %" PRId64 " GPUs, there are %d",
                         study->path, replicas == 0 ? 1 : replicas, study->parallel.tensor,
                         study->parallel.context, study->stage_count,
                         gpus * (replicas == 0 ? 1 : replicas), study->gpu_count);
    }
    if (!study->fills_cluster) return STATUS_OK;
    if (replicas > MODEL_DEGREE_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%s: training.data_parallel: %d GPUs make %" PRId64
                         " replicas, at most %d "
                         "are modelled",
                         study->path, study->gpu_count, replicas, MODEL_DEGREE_MAX);
    }
    study->parallel.data = (int)replicas;
    ana_inputs_add(&study->inputs, memory, "training.data_parallel.filled", MODEL_ORIGIN_GIVEN,
                   "%d replicas on %" PRId64 " of %d GPUs", (int)replicas, replicas * gpus,
                   study->gpu_count);
    return STATUS_OK;
}

status ana_setup_batch(ana_setup *setup, arena *memory, error_message *err)
{
    ana_study *study = setup->study;
    const int size = study->microbatch_size > 0 ? study->microbatch_size : 1;
    const int64_t together = (int64_t)size * study->parallel.data * study->round_count;
    if (study->global_batch == 0) return STATUS_OK;
    if (study->global_batch % together != 0) {
        return error_set(err, STATUS_INFEASIBLE,
                         "%s: training.global_batch: %d sequences are not divisible by data %d x "
                         "microbatch_size %d%s = %" PRId64,
                         study->path, study->global_batch, study->parallel.data, size,
                         study->round_count > 1 ? " x accumulation" : "", together);
    }
    const int64_t microbatches = study->global_batch / together;
    if (microbatches > BAL_MICROBATCHES_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%s: training.global_batch: %" PRId64
                         " microbatches of each replica exceed "
                         "%d",
                         study->path, microbatches, BAL_MICROBATCHES_MAX);
    }
    study->microbatch_count = (int)microbatches;
    ana_inputs_add(&study->inputs, memory, "training.microbatches", MODEL_ORIGIN_GIVEN,
                   "%d of %d sequences, by the global batch", study->microbatch_count, size);
    return STATUS_OK;
}
