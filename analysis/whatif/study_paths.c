#include "analysis/whatif/study_paths.h"

#include "base/text.h"

#include <stdbool.h>
#include <string.h>

const char *const ana_study_paths[] = {
    "trace",
    "trace.store",
    "trace.name",
    "trace.first_iteration",
    "trace.model",
    "model",
    "model.base",
    "hardware",
    "hardware.base",
    "hardware.name",
    "hardware.flop_per_s.bfloat16",
    "hardware.flop_per_s.float16",
    "hardware.flop_per_s.float32",
    "hardware.flop_per_s.float8",
    "hardware.efficiency.gemm",
    "hardware.efficiency.attention",
    "hardware.efficiency.memory",
    "hardware.memory_bytes",
    "hardware.memory_bytes_per_s",
    "hardware.gpus_per_node",
    "hardware.links.intra.latency_ns",
    "hardware.links.intra.bytes_per_s",
    "hardware.links.inter.latency_ns",
    "hardware.links.inter.bytes_per_s",
    "cluster.nodes",
    "cluster.gpus_per_node",
    "cluster.gpus",
    "cluster.memory_bytes",
    "cluster.links.intra.latency_ns",
    "cluster.links.intra.bytes_per_s",
    "cluster.links.intra.measured",
    "cluster.links.inter.latency_ns",
    "cluster.links.inter.bytes_per_s",
    "cluster.links.inter.measured",
    "cluster.slow_ranks",
    "cluster.send",
    "cluster.links.shared",
    "cluster.mtbf_hours",
    "cluster.price_per_gpu_hour",
    "cluster.price_currency",
    "cluster.price_date",
    "cluster.price_source",
    "training.iterations",
    "training.sequence_length",
    "training.microbatch_size",
    "training.microbatches",
    "training.global_batch",
    "training.tokens",
    "training.checkpoint_s",
    "training.restart_s",
    "training.checkpoint_interval_s",
    "training.start",
    "training.data_parallel",
    "training.tensor_parallel",
    "training.expert_parallel",
    "training.expert_tensor_parallel",
    "training.context_parallel",
    "training.sequence_parallel",
    "training.recompute",
    "training.sharding",
    "training.rank_order",
    "training.dtype",
    "training.attention",
    "training.layers",
    "training.decision_ns",
    "training.profile_ns",
    "training.optimizer_step_ns",
    "training.state_bytes_per_parameter",
    "training.gradient_bytes_per_parameter",
    "training.reduction_overlap",
    "training.step",
    "training.step.kind",
    "training.step.norm_ns",
    "training.step.rollback_ns",
    "training.step.unclipped",
    "training.step.failure_probability",
    "training.step.failures",
    "training.step.seed",
    "training.accumulation",
    "disturbance",
    "disturbance.seed",
    "disturbance.op_sigma",
    "disturbance.iteration_sigma",
    "disturbance.rank_sigma",
    "disturbance.stragglers.probability",
    "disturbance.stragglers.factor",
    "disturbance.stragglers.iterations",
    "disturbance.messages.factor",
    "disturbance.messages.sigma",
    "disturbance.messages.factor_max",
    "disturbance.links",
    "pipeline.stages",
    "pipeline.chunks",
    "pipeline.schedule",
    "pipeline.policy",
    "dynamism",
    "dynamism.case",
    "dynamism.load_model",
    "dynamism.seed",
    "dynamism.change_ratio",
    "balancing",
    "balancing.balancer",
    "balancing.policy",
    "balancing.by",
    "balancing.information",
    "balancing.speed",
    "balancing.label",
    "balancing.migration.slack",
    "balancing.migration.relabel",
    "balancing.migration.overlap",
    "balancing.migration.hysteresis",
    "balancing.migration.neighbour_iterations",
    "balancing.repack.kind",
    "balancing.repack.tolerance",
    "balancing.repack.unit",
    "balancing.repack.min_ranks",
    "balancing.repack.target",
    "balancing.repack.threshold",
    "balancing.repack.grow",
    "balancing.repack.use",
    "balancing.repack.microbatches",
    "balancing.repack.op_fixed",
    "repack.kind",
    "repack.tolerance",
    "repack.unit",
    "repack.min_ranks",
    "repack.target",
    "repack.threshold",
    "repack.grow",
    "repack.use",
    "repack.microbatches",
    "repack.op_fixed",
    NULL,
};

static bool begins_with_key(const char *path, const char *key)
{
    const size_t length = strlen(key);
    return strncmp(path, key, length) == 0 && (path[length] == '.' || path[length] == '\0');
}

static int path_count(void)
{
    int count = 0;
    while (ana_study_paths[count] != NULL) {
        count++;
    }
    return count;
}

status ana_study_path_check(const char *path, error_message *err)
{
    static const char *const open[] = {"dynamism.", "model."}; // of other readers
    for (size_t key = 0; key < sizeof open / sizeof open[0]; key++) {
        const size_t length = strlen(open[key]);
        if (strncmp(path, open[key], length) == 0 && path[length] != '\0') return STATUS_OK;
    }
    for (int known = 0; ana_study_paths[known] != NULL; known++) {
        if (path[0] != '\0' && begins_with_key(ana_study_paths[known], path)) return STATUS_OK;
    }
    // Too many to list them all: without a near one the message ends behind the path.
    const char *nearest = text_nearest(path, ana_study_paths, path_count());
    return error_set(err, STATUS_FORMAT, "'%.80s' names nothing in a study%s%s%s", path,
                     nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                     nearest != NULL ? "'?" : "");
}
