/// The table of the keys of a study, and what is asked of it besides reading.
#include "analysis/study/study_keys.h"

#include "balance/schedule/schedule.h"
#include "models/lengths/packing.h"
#include "models/shipped.h"

#include <string.h>

enum { ITERATIONS_MAX = 100000000 };

#define NS_MAX 1e12
#define BYTES_PER_S_MAX 1e15
#define OFFSET(member) .offset = offsetof(ana_study, member)
#define ROW(member) .offset = offsetof(ana_balancing, member)
#define REPACK(member) .offset = offsetof(ana_repack, member)
#define SLOW(member) .offset = offsetof(bal_slow_rank, member)
#define LINK(member) .offset = offsetof(bal_disturbed_link, member)

static const char *const fill_names[] = {"fill"};
static const char *const step_names[] = {"barrier", "post-validation"};
static const char *const unit_names[] = {"rank", "node"};

static const ana_study_key keys[] = {
    {"schema", ANA_KEY_KNOWN, "\"dynmo-study/1\"", .flags = ANA_KEY_FIXED},
    {"name", ANA_KEY_WORDS, "stands above the result", OFFSET(name),
     .flags = ANA_KEY_FIXED | ANA_KEY_UNLISTED},
    {"vary", ANA_KEY_OWN, "axes of `dynmo study`: {PATH: [VALUE, ...]}", .read = ana_refuse_axes,
     .flags = ANA_KEY_FIXED},
    {"alternatives", ANA_KEY_OWN, "axes of several paths: {AXIS: {NAME: {PATH: VALUE, ...}}}",
     .read = ana_refuse_axes, .flags = ANA_KEY_FIXED},
    {"sources", ANA_KEY_KNOWN, "{PATH: given|measured|fitted|preset|assumed}, of given values",
     .flags = ANA_KEY_FIXED},

    {"trace", ANA_KEY_OWN, "a store, or an object", .read = ana_read_trace},
    {"trace.store", ANA_KEY_PATH, "path, from the study's folder", OFFSET(trace_path),
     .flags = ANA_KEY_NEEDED | ANA_KEY_ALWAYS},
    {"trace.first_iteration", ANA_KEY_INT, "those before it are left out as warm-up", NULL, 0,
     ITERATIONS_MAX, -1, OFFSET(first_iteration)},
    {"trace.model", ANA_KEY_PATH, "config or shipped name of the model that was traced",
     OFFSET(trace_model), .shipped = model_shipped_configs},
    {"trace.packing", ANA_KEY_NAME,
     "of case lengths, as recorded: costs of sequences are then fitted to the trace", NULL, 0,
     MODEL_PACK_COUNT - 1, -1, OFFSET(trace_packing), .names = model_packing_names},
    {"trace.name", ANA_KEY_WORDS, "of the trace in its store", OFFSET(trace_name),
     .flags = ANA_KEY_UNLISTED},
    {"model", ANA_KEY_OWN, "config.json, shipped name, or {\"base\":CONFIG, other values}",
     .read = ana_read_model},
    {"hardware", ANA_KEY_OWN, "file, shipped name, or {\"base\":FILE, other values}",
     .read = ana_read_hardware},

    {"cluster", ANA_KEY_OBJECT, "the GPUs and their links", .read = ana_check_cluster},
    {"cluster.nodes", ANA_KEY_INT, "nodes that there are", NULL, 1, 1 << 20, 0, OFFSET(node_count)},
    {"cluster.gpus_per_node", ANA_KEY_INT, "else as the hardware says, or 8", NULL, 1, 1 << 16, 0,
     OFFSET(gpus_per_node)},
    {"cluster.gpus", ANA_KEY_INT, "GPUs that are rented", NULL, 1, MODEL_STAGE_GPUS_MAX, 0,
     OFFSET(gpu_count)},
    {"cluster.price_per_gpu_hour", ANA_KEY_DOUBLE, "your own price; needs price_date", NULL, 0, 1e6,
     -1, OFFSET(price_per_gpu_hour)},
    {"cluster.price_currency", ANA_KEY_WORDS, "of the price", OFFSET(price_currency), .text = "USD",
     .flags = ANA_KEY_FIXED},
    {"cluster.price_source", ANA_KEY_WORDS, "who asked for it", OFFSET(price_source)},
    {"cluster.price_date", ANA_KEY_WORDS, "the day on which it was asked for", OFFSET(price_date)},
    {"cluster.memory_bytes", ANA_KEY_INT64, "of a GPU; 0: not limited; else as the hardware says",
     "B", 0, (double)JSON_INTEGER_MAX, -1, OFFSET(memory_bytes)},
    {"cluster.send", ANA_KEY_CHOICE, "who waits while a message is under way", NULL, 0,
     BAL_SEND_COUNT - 1, BAL_SEND_ASYNC, OFFSET(send), .names = bal_send_names,
     .flags = ANA_KEY_SIMULATED},
    {"cluster.links", ANA_KEY_OBJECT, .help = "else as the hardware says",
     .flags = ANA_KEY_NOT_LEARNT},
    {"cluster.links.shared", ANA_KEY_BOOL, "the ranks of a node share one link to others",
     OFFSET(shares_node_links), .flags = ANA_KEY_SIMULATED},
    {"cluster.links.intra", ANA_KEY_OBJECT, .help = "inside a node"},
    {"cluster.links.intra.latency_ns", ANA_KEY_INT64, "of a message of no bytes", "ns", 0, NS_MAX,
     -1, OFFSET(intra_node.latency_ns)},
    {"cluster.links.intra.bytes_per_s", ANA_KEY_INT64, "of a long message", "B/s", 1,
     BYTES_PER_S_MAX, 0, OFFSET(intra_node.bytes_per_s)},
    {"cluster.links.inter", ANA_KEY_OBJECT, .help = "between nodes"},
    {"cluster.links.inter.latency_ns", ANA_KEY_INT64, "of a message of no bytes", "ns", 0, NS_MAX,
     -1, OFFSET(inter_node.latency_ns)},
    {"cluster.links.inter.bytes_per_s", ANA_KEY_INT64, "of a long message", "B/s", 1,
     BYTES_PER_S_MAX, 0, OFFSET(inter_node.bytes_per_s)},
    {"cluster.slow_ranks", ANA_KEY_RECORDS, "ranks that are slower for a while", NULL, 0,
     ANA_SLOW_RANKS_MAX, .read = ana_add_slow_rank, .flags = ANA_KEY_LATE},
    {"cluster.slow_ranks.rank", ANA_KEY_INT, "of the pipeline", NULL, 0, 0, -1, SLOW(rank),
     .flags = ANA_KEY_NEEDED | ANA_KEY_RANK | ANA_KEY_FIXED},
    {"cluster.slow_ranks.speed", ANA_KEY_DOUBLE, "its ops take 1 / speed as long", NULL, 0.001,
     1000, 0, SLOW(time_factor), .flags = ANA_KEY_NEEDED | ANA_KEY_FIXED},
    {"cluster.slow_ranks.from", ANA_KEY_INT, "first iteration", NULL, 0, ITERATIONS_MAX, 0,
     SLOW(first_iteration), .flags = ANA_KEY_FIXED},
    {"cluster.slow_ranks.to", ANA_KEY_INT, "last iteration", NULL, 0, ITERATIONS_MAX,
     ITERATIONS_MAX, SLOW(end_iteration), .flags = ANA_KEY_FIXED},

    {"training", ANA_KEY_OBJECT, "the run", .read = ana_check_training},
    {"training.iterations", ANA_KEY_INT, "else as many as the trace has", NULL, 1, ITERATIONS_MAX,
     0, OFFSET(iteration_count)},
    {"training.sequence_length", ANA_KEY_INT, "else the model's", "tokens", 1, 1 << 24, 0,
     OFFSET(sequence_length)},
    {"training.microbatch_size", ANA_KEY_INT, "1 unless given", "sequences", 1, 1 << 20, 0,
     OFFSET(microbatch_size)},
    {"training.microbatches", ANA_KEY_INT, "of each replica; else the trace's, or 4 per stage",
     NULL, 1, BAL_MICROBATCHES_MAX, 0, OFFSET(microbatch_count)},
    {"training.global_batch", ANA_KEY_INT, "of all replicas, in place of microbatches", "sequences",
     1, 1 << 30, 0, OFFSET(global_batch)},
    {"training.batch_tolerance", ANA_KEY_DOUBLE,
     "of global_batch, by which a point may leave it to be divisible", NULL, 0, 0.5, 0,
     OFFSET(batch_tolerance), .flags = ANA_KEY_NOT_LEARNT},
    {"training.accumulation", ANA_KEY_INT, "passes of the pipeline per step of the optimizer",
     "passes", 1, BAL_ROUNDS_MAX, 1, OFFSET(run.round_count), .flags = ANA_KEY_SIMULATED},
    {"training.tokens", ANA_KEY_INT64, "of the whole training", "tokens", 1,
     (double)JSON_INTEGER_MAX, 0, OFFSET(token_count)},
    {"training.data_parallel", ANA_KEY_OWN,
     "replicas, or \"fill\": the most that cluster.gpus make and batch and experts divide among",
     "replicas", 1, MODEL_DEGREE_MAX, 1, OFFSET(parallel.data), .names = fill_names,
     .read = ana_read_replicas},
    {"training.tensor_parallel", ANA_KEY_INT, "GPUs that share every layer", "GPUs", 1,
     MODEL_DEGREE_MAX, 1, OFFSET(parallel.tensor), .flags = ANA_KEY_NOT_LEARNT},
    {"training.expert_parallel", ANA_KEY_INT, "GPUs over which experts are spread", "GPUs", 1,
     MODEL_DEGREE_MAX, 1, OFFSET(parallel.expert)},
    {"training.expert_tensor_parallel", ANA_KEY_INT, "GPUs that share an expert; else as tensor",
     "GPUs", 1, MODEL_DEGREE_MAX, 0, OFFSET(parallel.expert_tensor), .flags = ANA_KEY_NOT_LEARNT},
    {"training.context_parallel", ANA_KEY_INT, "GPUs that share a sequence", "GPUs", 1,
     MODEL_DEGREE_MAX, 1, OFFSET(parallel.context), .flags = ANA_KEY_NOT_LEARNT},
    {"training.sequence_parallel", ANA_KEY_BOOL, "tensor parallelism divides norms, too",
     OFFSET(parallel.sequence), .flags = ANA_KEY_NOT_LEARNT},
    {"training.tensor_overlap", ANA_KEY_DOUBLE,
     "share of the sums of gradients in B that hides behind W; with a model", NULL, 0, 1,
     MODEL_TENSOR_OVERLAP_DEFAULT, OFFSET(parallel.tensor_overlap),
     .flags = ANA_KEY_OF_MODEL | ANA_KEY_NOT_LEARNT},
    {"training.expert_overlap", ANA_KEY_DOUBLE,
     "share of all-to-alls that hides behind other work; with a model", NULL, 0, 1, 0,
     OFFSET(parallel.expert_overlap), .flags = ANA_KEY_OF_MODEL | ANA_KEY_NOT_LEARNT},
    {"training.expert_deduplication", ANA_KEY_DOUBLE,
     "0: all-to-all, a copy of a token for each expert; 1: DeepEP, one for each GPU; with a model",
     NULL, 0, 1, -1, OFFSET(parallel.expert_deduplication),
     .flags = ANA_KEY_OF_MODEL | ANA_KEY_NOT_LEARNT},
    {"training.recompute", ANA_KEY_CHOICE, "what is computed again; with a model", NULL, 0,
     MODEL_RECOMPUTE_COUNT - 1, MODEL_RECOMPUTE_NONE, OFFSET(parallel.recompute),
     .names = model_recompute_names, .flags = ANA_KEY_OF_MODEL},
    {"training.recompute_layers", ANA_KEY_INT, "of the model that do so, spread evenly; else all",
     "transformer layers", 1, BAL_LAYERS_MAX, 0, OFFSET(parallel.recompute_layers),
     .flags = ANA_KEY_OF_MODEL | ANA_KEY_NOT_LEARNT},
    {"training.sharding", ANA_KEY_CHOICE, "what replicas keep a share of; with a model", NULL, 0,
     MODEL_SHARDING_COUNT - 1, MODEL_SHARDING_NONE, OFFSET(parallel.sharding),
     .names = model_sharding_names, .flags = ANA_KEY_OF_MODEL | ANA_KEY_NOT_LEARNT},
    {"training.rank_order", ANA_KEY_CHOICE, "which GPUs are neighbours", NULL, 0,
     MODEL_RANK_ORDER_COUNT - 1, MODEL_RANK_ORDER_DATA_FIRST, OFFSET(parallel.order),
     .names = model_rank_order_names},
    {"training.dtype", ANA_KEY_CHOICE, "of a model; else as its config says", NULL,
     MODEL_DTYPE_UNKNOWN + 1, MODEL_DTYPE_COUNT - 1, MODEL_DTYPE_UNKNOWN, OFFSET(dtype),
     .names = model_dtype_names, .flags = ANA_KEY_OF_MODEL | ANA_KEY_OF_TRACED},
    {"training.attention", ANA_KEY_NAME, "kernels of attention; with a model", NULL, 0,
     MODEL_ATTENTION_COUNT - 1, -1, OFFSET(attention), .names = model_attention_names,
     .flags = ANA_KEY_OF_MODEL | ANA_KEY_NOT_LEARNT},
    {"training.eager", ANA_KEY_BOOL,
     "layers run operator by operator, as PyTorch uncompiled: more is kept; with a model",
     OFFSET(parallel.eager), .flags = ANA_KEY_OF_MODEL | ANA_KEY_NOT_LEARNT},
    {"training.fused_norms", ANA_KEY_BOOL,
     "with eager: but norms and rotation are a library's (flash-attn, Liger, Apex)",
     OFFSET(parallel.fused_norms), .flags = ANA_KEY_OF_MODEL | ANA_KEY_NOT_LEARNT},
    {"training.eager_loss", ANA_KEY_BOOL,
     "the loss is PyTorch's, uncompiled: 12 or 16 bytes of a logit, not 4; with a model",
     OFFSET(parallel.eager_loss), .flags = ANA_KEY_OF_MODEL | ANA_KEY_NOT_LEARNT},
    {"training.blocking_launches", ANA_KEY_BOOL,
     "the host waits for each kernel (CUDA_LAUNCH_BLOCKING=1); with a model",
     OFFSET(parallel.blocking_launches), .flags = ANA_KEY_OF_MODEL | ANA_KEY_NOT_LEARNT},
    {"training.cuda_graphs", ANA_KEY_BOOL,
     "whole iterations are CUDA graphs: the host starts no kernels; with a model",
     OFFSET(parallel.cuda_graphs), .flags = ANA_KEY_OF_MODEL | ANA_KEY_NOT_LEARNT},
    {"training.layers", ANA_KEY_INT, "of a model, in place of its own number", "transformer layers",
     1, BAL_LAYERS_MAX, 0, OFFSET(transformer_layer_count), .flags = ANA_KEY_OF_MODEL},
    {"training.decision_ns", ANA_KEY_INT64, "time of one decision", "ns", 0, NS_MAX, 0,
     OFFSET(run.decision_ns)},
    {"training.relaunch_ns", ANA_KEY_INT64, "standstill whenever layers move, beside the transfers",
     "ns", 0, 1e14, 0, OFFSET(relaunch_ns), .flags = ANA_KEY_SIMULATED},
    {"training.profile_ns", ANA_KEY_INT64, "that profiling adds to an iteration", "ns", 0, NS_MAX,
     0, OFFSET(run.profile_ns)},
    {"training.optimizer_step_ns", ANA_KEY_INT64, "time of the optimizer's step", "ns", 0, NS_MAX,
     0, OFFSET(run.optimizer_step_ns), .flags = ANA_KEY_NOT_LEARNT},
    {"training.state_bytes_per_parameter", ANA_KEY_INT, "weights, gradients, optimizer", "B", 1, 64,
     0, OFFSET(state_bytes_per_parameter), .flags = ANA_KEY_NOT_LEARNT},
    {"training.gradient_bytes_per_parameter", ANA_KEY_INT, "that replicas reduce", "B", 1, 8, 0,
     OFFSET(gradient_bytes_per_parameter), .flags = ANA_KEY_NOT_LEARNT},
    {"training.reduction_overlap", ANA_KEY_CHOICE, "what hides the reduction of gradients", NULL, 0,
     BAL_REDUCTION_OVERLAP_COUNT - 1, BAL_REDUCTION_EXPOSED, OFFSET(run.reduction_overlap),
     .names = bal_reduction_overlap_names},
    {"training.step", ANA_KEY_SWITCH,
     "barrier: all wait for the norm of all gradients; post-validation: nobody does", NULL, 0, 1, 0,
     OFFSET(run.post_validation), .names = step_names, .flags = ANA_KEY_NOT_LEARNT},

    {"pipeline", ANA_KEY_OBJECT, "stages and their order", .read = ana_check_pipeline,
     .flags = ANA_KEY_NEEDED | ANA_KEY_ALWAYS},
    {"pipeline.stages", ANA_KEY_INT, "ranks of one replica", NULL, 1, BAL_RANKS_MAX, 0,
     OFFSET(stage_count), .flags = ANA_KEY_NEEDED},
    {"pipeline.chunks", ANA_KEY_INT, "per rank; else the schedule's own", NULL, 1, BAL_CHUNKS_MAX,
     0, OFFSET(run.chunk_count)},
    {"pipeline.schedule", ANA_KEY_OWN,
     "as `dynmo schedule` names them; of a trace of full backwards 1f1b", OFFSET(run.schedule),
     .text = "zb-h1", .read = ana_read_schedule},
    {"pipeline.layers_per_stage", ANA_KEY_OWN,
     "split of the balancer `given`: transformer layers, or with embedding and head counted",
     .read = ana_read_split},
    {"pipeline.first_stage_backward", ANA_KEY_SWITCH,
     "whole: its B does B and W, as PyTorch's, which sends no gradient", NULL, 0, 1, 0,
     OFFSET(first_stage_whole), .names = bal_first_stage_backward_names,
     .flags = ANA_KEY_NOT_LEARNT},
    {"pipeline.policy", ANA_KEY_OWN, "static: orders are played as compiled",
     .read = ana_read_replay},

    {"disturbance", ANA_KEY_OBJECT, "times that are drawn", .flags = ANA_KEY_SIMULATED},
    {"disturbance.seed", ANA_KEY_SEED, "of the draws", OFFSET(run.disturbance.seed)},
    {"disturbance.op_sigma", ANA_KEY_DOUBLE, "deviation of every op's time", NULL, 0, 1, 0,
     OFFSET(run.disturbance.op_sigma)},
    {"disturbance.iteration_sigma", ANA_KEY_DOUBLE, "of a rank in an iteration", NULL, 0, 1, 0,
     OFFSET(run.disturbance.iteration_sigma)},
    {"disturbance.rank_sigma", ANA_KEY_DOUBLE, "of a rank in the run", NULL, 0, 1, 0,
     OFFSET(run.disturbance.rank_sigma)},
    {"disturbance.stragglers", ANA_KEY_OBJECT, .help = "ranks that are slow for some iterations"},
    {"disturbance.stragglers.probability", ANA_KEY_DOUBLE, "that a rank begins to straggle", NULL,
     0, 1, 0, OFFSET(run.disturbance.straggler_probability), .flags = ANA_KEY_NEEDED},
    {"disturbance.stragglers.factor", ANA_KEY_DOUBLE, "of its times", NULL, 1, 1000, 0,
     OFFSET(run.disturbance.straggler_factor), .flags = ANA_KEY_NEEDED},
    {"disturbance.stragglers.iterations", ANA_KEY_INT, "that it does", NULL, 1,
     BAL_STRAGGLE_ITERATIONS_MAX, 1, OFFSET(run.disturbance.straggler_iterations),
     .flags = ANA_KEY_WITH_SECTION},
    {"disturbance.messages", ANA_KEY_OBJECT, .help = "what messages take, in times of their links"},
    {"disturbance.messages.factor", ANA_KEY_DOUBLE, "mean", NULL, 0, 1000, 0,
     OFFSET(run.disturbance.message_factor), .flags = ANA_KEY_NEEDED},
    {"disturbance.messages.sigma", ANA_KEY_DOUBLE, "deviation", NULL, 0, 1000, 0,
     OFFSET(run.disturbance.message_sigma)},
    {"disturbance.messages.factor_max", ANA_KEY_DOUBLE, "draws are put within 1 and this", NULL, 1,
     1000, 1000, OFFSET(run.disturbance.message_factor_max), .flags = ANA_KEY_WITH_SECTION},
    {"disturbance.links", ANA_KEY_RECORDS, "links that are slower for a while", NULL, 0,
     ANA_DISTURBED_LINKS_MAX, .read = ana_add_disturbed_link},
    {"disturbance.links.between", ANA_KEY_OWN, "[rank, rank]", LINK(rank), .read = ana_read_between,
     .flags = ANA_KEY_NEEDED | ANA_KEY_FIXED},
    {"disturbance.links.factor", ANA_KEY_DOUBLE, "of the times of messages", NULL, 1, 1000, 1,
     LINK(time_factor), .flags = ANA_KEY_FIXED},
    {"disturbance.links.delay_ns", ANA_KEY_INT64, "added to every message", "ns", 0, NS_MAX, 0,
     LINK(delay_ns), .flags = ANA_KEY_FIXED},
    {"disturbance.links.from", ANA_KEY_INT, "first iteration", NULL, 0, ITERATIONS_MAX, 0,
     LINK(first_iteration), .flags = ANA_KEY_FIXED},
    {"disturbance.links.to", ANA_KEY_INT, "last iteration", NULL, 0, ITERATIONS_MAX, ITERATIONS_MAX,
     LINK(end_iteration), .flags = ANA_KEY_FIXED},

    {"dynamism", ANA_KEY_OWN,
     "how the model changes: "
     "{\"case\":moe|pruning|freezing|sparse-attention|early-exit|mod|lengths, "
     "...}, see models/DYNAMISM.md",
     .read = ana_read_dynamism},
    {"dynamism.change_ratio", ANA_KEY_DOUBLE,
     "without a case: of F + B + W of a layer since the last change, for it to be one", NULL, 0.001,
     1000, 0.25, OFFSET(run.change_ratio)},
    {"execution", ANA_KEY_OWN, "what `dynmo run` trains; not simulated", OFFSET(execution),
     .read = ana_read_value, .flags = ANA_KEY_FIXED},
    {"uncertainty", ANA_KEY_OWN, "ranges of inputs, of `dynmo study`", OFFSET(uncertainty),
     .read = ana_read_value, .flags = ANA_KEY_FIXED},

    {"repack", ANA_KEY_OWN, "of rows with a policy that have none of their own", OFFSET(repack),
     .read = ana_read_repack},
    {"repack.kind", ANA_KEY_CHOICE, "who decides how many ranks are kept", NULL, 0,
     BAL_REPACK_COUNT - 1, BAL_REPACK_NONE, REPACK(options.kind), .names = bal_repack_names,
     .flags = ANA_KEY_NEEDED},
    {"repack.tolerance", ANA_KEY_DOUBLE, "iterations may be longer by this share (by times)", NULL,
     0, 10, -1, REPACK(options.tolerance_ratio)},
    {"repack.unit", ANA_KEY_SWITCH, "what is released at once", NULL, 0, 1, 0, REPACK(by_node),
     .names = unit_names},
    {"repack.min_ranks", ANA_KEY_INT, "ranks that stay", NULL, 1, 0, -1,
     REPACK(options.rank_count_min), .flags = ANA_KEY_RANKS},
    {"repack.target", ANA_KEY_INT, "ranks at which to stop (by memory)", NULL, 1, 0, -1,
     REPACK(options.target_rank_count), .flags = ANA_KEY_RANKS},
    {"repack.threshold", ANA_KEY_DOUBLE, "share of the start's load below which to act (by memory)",
     NULL, 0, 1, -1, REPACK(options.load_threshold_ratio)},
    {"repack.grow", ANA_KEY_DOUBLE, "ranks come back beyond the tolerance and this (by times)",
     NULL, 0, 10, -1, REPACK(options.grow_ratio)},
    {"repack.use", ANA_KEY_CHOICE, "of released ranks", NULL, 0, BAL_RELEASED_COUNT - 1,
     BAL_RELEASED_RELEASE, REPACK(options.use), .names = bal_released_names},

    {"balancing", ANA_KEY_OWN, "a row, or an array of them", .read = ana_read_rows,
     .flags = ANA_KEY_ALWAYS},
    {"balancing.balancer", ANA_KEY_OWN, "as `dynmo plan` names them", .read = ana_read_balancer,
     .flags = ANA_KEY_NEEDED | ANA_KEY_ALWAYS},
    {"balancing.by", ANA_KEY_CHOICE, "what a layer weighs; else the balancer's own", NULL, 0,
     BAL_WEIGHT_COUNT - 1, -1, ROW(weight), .names = bal_weight_names, .flags = ANA_KEY_UNLISTED},
    {"balancing.policy", ANA_KEY_OWN,
     "when to decide again: never, on-change, every:N, every-iteration, threshold:x, shadow",
     .read = ana_read_policy},
    {"balancing.information", ANA_KEY_CHOICE, "what a decision looks at", NULL, 0,
     BAL_INFORMATION_COUNT - 1, BAL_INFORMATION_PROFILE, ROW(information),
     .names = bal_information_names},
    {"balancing.migration", ANA_KEY_OBJECT, .help = "how layers move"},
    {"balancing.migration.slack", ANA_KEY_DOUBLE, "fewest bytes among plans this close", NULL, 0,
     10, -1, ROW(migration.slack_ratio)},
    {"balancing.migration.relabel", ANA_KEY_BOOL, "stages may change ranks",
     ROW(migration.relabels)},
    {"balancing.migration.overlap", ANA_KEY_BOOL, "a layer moves once the backward sweep left it",
     ROW(migration.overlaps)},
    {"balancing.migration.hysteresis", ANA_KEY_DOUBLE, "share of an iteration that must be saved",
     NULL, 0, 0.999, -1, ROW(migration.hysteresis_ratio)},
    {"balancing.migration.neighbour_iterations", ANA_KEY_INT,
     "messages between neighbours that are held against transfers", NULL, 0, ITERATIONS_MAX, -1,
     ROW(migration.neighbour_iterations)},
    {"balancing.repack", ANA_KEY_OWN, "as repack", ROW(repack), .read = ana_read_repack},
    {"balancing.packing", ANA_KEY_NAME, "which sequences share a microbatch, with case lengths",
     NULL, 0, MODEL_PACK_COUNT - 1, -1, ROW(packing), .names = model_packing_names},
    {"balancing.label", ANA_KEY_WORDS, "name of the row", ROW(label), .flags = ANA_KEY_UNLISTED},
};

enum { KEY_COUNT = (int)(sizeof keys / sizeof keys[0]) };

const ana_study_key *ana_study_keys(int *count)
{
    *count = KEY_COUNT;
    return keys;
}

/// Keys of a row's repack stand where those of the study's do.
static const char *canonical(const char *path)
{
    static const char prefix[] = "balancing.repack.";
    return strncmp(path, prefix, sizeof prefix - 1) == 0 ? path + strlen("balancing.") : path;
}

const ana_study_key *ana_study_key_find(const char *path)
{
    const char *wanted = canonical(path);
    for (int key = 0; key < KEY_COUNT; key++) {
        if (strcmp(keys[key].path, wanted) == 0) return &keys[key];
    }
    return NULL;
}

static bool begins_with_key(const char *path, const char *key)
{
    const size_t length = strlen(key);
    return strncmp(path, key, length) == 0 && (path[length] == '.' || path[length] == '\0');
}

status ana_study_path_check(const char *path, error_message *err)
{
    static const char *const open[] = {"dynamism.", "hardware.", "model."}; // of other readers
    const char *names[KEY_COUNT];
    int count = 0;
    for (size_t key = 0; key < sizeof open / sizeof open[0]; key++) {
        const size_t length = strlen(open[key]);
        if (strncmp(path, open[key], length) == 0 && path[length] != '\0') return STATUS_OK;
    }
    for (int key = 0; key < KEY_COUNT; key++) {
        if ((keys[key].flags & ANA_KEY_FIXED) != 0) continue;
        if (path[0] != '\0' && begins_with_key(keys[key].path, canonical(path))) return STATUS_OK;
        names[count++] = keys[key].path;
    }
    // Too many to list them all: without a near one the message ends after the path.
    const char *nearest = text_nearest(path, names, count);
    return error_set(err, STATUS_FORMAT, "'%.80s' names nothing in a study%s%s%s", path,
                     nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                     nearest != NULL ? "'?" : "");
}

/// What the key, or an object around it, says of players.
static unsigned flags_around(const ana_study_key *key)
{
    unsigned flags = key->flags;
    for (int around = 0; around < KEY_COUNT; around++) {
        if (begins_with_key(key->path, keys[around].path)) flags |= keys[around].flags;
    }
    return flags;
}

/// Whether a study has what stands for a key that is not given. Of objects their keys are looked
/// at.
static bool is_default(const ana_study_key *key, const ana_study *study, const ana_study *defaults)
{
    static const size_t sizes[ANA_KEY_KNOWN + 1] = {
        [ANA_KEY_INT] = sizeof(int),       [ANA_KEY_CHOICE] = sizeof(int),
        [ANA_KEY_INT64] = sizeof(int64_t), [ANA_KEY_DOUBLE] = sizeof(double),
        [ANA_KEY_BOOL] = sizeof(bool),     [ANA_KEY_SWITCH] = sizeof(bool)};
    const size_t size = sizes[key->type];
    if (key->type == ANA_KEY_OBJECT || key->type == ANA_KEY_SEED) return true;
    return size > 0 && memcmp((const char *)study + key->offset,
                              (const char *)defaults + key->offset, size) == 0;
}

status ana_study_check_costs(const ana_study *study, error_message *err)
{
    for (int key = 0; key < KEY_COUNT && study->model == NULL; key++) {
        const json_value given = json_at(study->root, keys[key].path);
        if ((keys[key].flags & ANA_KEY_OF_MODEL) == 0 || json_is_missing(given)) continue;
        if ((keys[key].flags & ANA_KEY_OF_TRACED) != 0 && study->trace_model != NULL) continue;
        return json_error(given, STATUS_FORMAT, err,
                          "the times of a trace are as recorded; only a model's depend on it");
    }
    return STATUS_OK;
}

status ana_study_check_player(const ana_study *study, unsigned flags, error_message *err)
{
    ana_study defaults = {0};
    ana_study_keys_init("", &defaults);
    for (int key = 0; key < KEY_COUNT; key++) {
        const unsigned unplayed = flags_around(&keys[key]) & flags;
        if (unplayed == 0 || json_is_missing(json_at(study->root, keys[key].path))) continue;
        if (is_default(&keys[key], study, &defaults)) continue;
        return error_set(err, STATUS_UNSUPPORTED, "%s: %s is simulated only; %s", study->path,
                         keys[key].path,
                         (unplayed & ANA_KEY_SIMULATED) != 0 ? "no device of `dynmo run` does it"
                                                             : "this device does not train so");
    }
    return STATUS_OK;
}

static void print_names(const ana_study_key *key, text_buffer *out)
{
    for (int name = (int)key->min; name <= (int)key->max; name++) {
        text_format(out, "%s%s", name > (int)key->min ? "|" : "", key->names[name]);
    }
}

/// What a value may be: "integer in [1, 64], B".
static void print_type(const ana_study_key *key, text_buffer *out)
{
    static const char *const words[ANA_KEY_KNOWN + 1] = {
        [ANA_KEY_OBJECT] = "object", [ANA_KEY_RECORDS] = "array of objects",
        [ANA_KEY_INT] = "integer",   [ANA_KEY_INT64] = "integer",
        [ANA_KEY_DOUBLE] = "number", [ANA_KEY_BOOL] = "true|false",
        [ANA_KEY_SEED] = "integer",  [ANA_KEY_WORDS] = "text"};
    const bool is_number =
        key->type == ANA_KEY_INT || key->type == ANA_KEY_INT64 || key->type == ANA_KEY_DOUBLE;
    if (words[key->type] != NULL) text_append(out, words[key->type]);
    if (key->type >= ANA_KEY_CHOICE && key->type <= ANA_KEY_NAME) print_names(key, out);
    if ((key->flags & ANA_KEY_RANK) != 0) {
        text_append(out, " in [0, stages - 1]");
    } else if ((key->flags & ANA_KEY_RANKS) != 0) {
        text_append(out, " in [1, stages]");
    } else if (is_number) {
        const bool is_whole = key->type != ANA_KEY_DOUBLE;
        text_format(out, is_whole ? " in [%.0f, %.0f]" : " in [%.12g, %.12g]", key->min, key->max);
    }
    if (key->unit != NULL) text_format(out, "%s%s", out->length > 0 ? " " : "", key->unit);
}

static void print_default(const ana_study_key *key, text_buffer *out)
{
    if ((key->flags & ANA_KEY_NEEDED) != 0) {
        text_append(out, "; needed");
    } else if (key->text != NULL) {
        text_format(out, "; default %s", key->text);
    } else if (key->fallback < key->min || key->fallback > key->max || key->type == ANA_KEY_SEED) {
        return;
    } else if (key->type == ANA_KEY_CHOICE || key->type == ANA_KEY_SWITCH) {
        text_format(out, "; default %s", key->names[(int)key->fallback]);
    } else if (key->type == ANA_KEY_BOOL) {
        text_format(out, "; default %s", key->fallback != 0 ? "true" : "false");
    } else if (key->max > 0 && key->type != ANA_KEY_RECORDS) {
        text_format(out, "; default %.12g", key->fallback);
    }
}

void ana_study_keys_print(text_buffer *out)
{
    for (int key = 0; key < KEY_COUNT; key++) {
        text_buffer type = {0};
        print_type(&keys[key], &type);
        print_default(&keys[key], &type);
        text_format(out, "%s%s%s\n    %s", keys[key].path, type.length > 0 ? ": " : "",
                    type.length > 0 ? type.bytes : "", keys[key].help);
        if ((flags_around(&keys[key]) & ANA_KEY_SIMULATED) != 0) {
            text_append(out, " (simulated only)");
        } else if ((keys[key].flags & ANA_KEY_NOT_LEARNT) != 0) {
            text_append(out, " (not on devices that train)");
        }
        text_append(out, "\n");
        text_free(&type);
    }
}
