#include "models/cost/cost_model.h"

#include "models/cost/config.h"
#include "models/cost/kernel_time.h"
#include "models/cost/layer_work.h"
#include "models/cost/saturating.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define COST_MAX (INT64_MAX / 4) // what sums over stages still hold

static const char *const part_names[MODEL_COST_PART_COUNT] = {
    "projection", "attention", "mlp",  "elementwise", "tensor",
    "context",    "expert",    "host", "sharding"};

const char *model_cost_part_name(model_cost_part part)
{
    assert(part < MODEL_COST_PART_COUNT);
    return part_names[part];
}

static int64_t sum_ns(int64_t a, int64_t b)
{
    return a > COST_MAX - b ? COST_MAX : a + b;
}

/// Times of the parts that are work.
static void fill_work_ns(const model_costs *costs, const model_config *view,
                         const model_layer_work *work, model_pass pass, model_dtype dtype,
                         int64_t part_ns[MODEL_COST_PART_COUNT])
{
    const model_hardware *hardware = &costs->hardware;
    assert(hardware->flop_per_s[dtype] > 0 && hardware->flop_per_s[model_dtype_wide(dtype)] > 0);
    part_ns[MODEL_COST_PROJECTION] =
        model_products_ns(work->projections.items, work->projections.count, pass, dtype, hardware);
    part_ns[MODEL_COST_ATTENTION] =
        model_attention_ns(view, &costs->shape, work->attention, pass, hardware);
    part_ns[MODEL_COST_MLP] =
        model_products_ns(work->mlps.items, work->mlps.count, pass, dtype, hardware);
    part_ns[MODEL_COST_ELEMENTWISE] =
        model_streams_ns(work->elementwise.bytes, work->launches.kernel_count, hardware);
}

static int64_t sum_parts_ns(const int64_t part_ns[MODEL_COST_PART_COUNT])
{
    int64_t sum = 0;
    for (int part = 0; part < MODEL_COST_PART_COUNT; part++) {
        sum = sum_ns(sum, part_ns[part] < COST_MAX ? part_ns[part] : COST_MAX);
    }
    return sum;
}

static void assume_hardware(const model_hardware *hardware, const model_shape *shape,
                            const char *origin, model_assumption_list *list)
{
    model_assume(list, "hardware", MODEL_ORIGIN_GIVEN, origin, "%s", hardware->name);
    model_assume(list, "flop_per_s", hardware->flop_origin.kind, hardware->flop_origin.text,
                 "%.6g TFLOP/s", (double)hardware->flop_per_s[shape->dtype] / 1e12);
    const model_origin efficiency = hardware->efficiency_origin;
    model_assume(list, "efficiency.gemm", efficiency.kind, efficiency.text, "%.6g",
                 hardware->gemm_efficiency);
    model_assume(list, "efficiency.attention", efficiency.kind, efficiency.text, "%.6g",
                 hardware->attention_efficiency);
    model_assume(list, "efficiency.memory", efficiency.kind, efficiency.text, "%.6g",
                 hardware->memory_efficiency);
    model_assume(list, "memory_bytes_per_s", hardware->memory_origin.kind,
                 hardware->memory_origin.text, "%.6g GB/s",
                 (double)hardware->memory_bytes_per_s / 1e9);
}

static void assume_overhead(const model_hardware *hardware, model_assumption_list *list)
{
    if (hardware->operator_ns == 0 && hardware->kernel_ns == 0) {
        model_assume(list, "overhead", MODEL_ORIGIN_ASSUMED,
                     "the hardware says none: small layers take longer than is said here", "0 ns");
        return;
    }
    model_assume(list, "overhead", hardware->overhead_origin.kind, hardware->overhead_origin.text,
                 "%" PRId64 " ns a kernel, %" PRId64 " ns an operator of the host, %" PRId64
                 " ns a kernel of a loop",
                 hardware->kernel_ns, hardware->operator_ns, hardware->launch_ns);
}

static status choose_host(const model_hardware *hardware, const model_parallel *parallel,
                          model_assumption_list *list, error_message *err)
{
    if (parallel->recompute != MODEL_RECOMPUTE_OFFLOAD) return STATUS_OK;
    if (hardware->host.bytes_per_s == 0) {
        return error_set(err, STATUS_INVALID,
                         "recompute offload: the hardware %.60s has no links.host", hardware->name);
    }
    model_assume(list, "links.host", hardware->links_origin.kind, hardware->links_origin.text,
                 "%.6g GB/s", (double)hardware->host.bytes_per_s / 1e9);
    return STATUS_OK;
}

/// Every second product is what frameworks make again of dense models; of experts they keep more.
static status check_operators(const model_config *config, const model_parallel *parallel,
                              error_message *err)
{
    bool is_plain = config->kv_rank == 0 && config->mamba_head_count == 0;
    for (int layer = 0; layer < config->layer_count && is_plain; layer++) {
        is_plain = !config->is_moe[layer];
    }
    if (parallel->recompute != MODEL_RECOMPUTE_OPERATORS || is_plain) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "recompute operators: of dense models with plain attention alone; take mlp "
                     "for experts, latent attention and state-space mixers");
}

/// Links that collectives take; nobody asks for them where every stage is one GPU.
static void assume_links(const model_hardware *hardware, const model_parallel *parallel,
                         model_assumption_list *list)
{
    if (model_parallel_gpu_count(parallel, 1) == 1) return;
    const struct {
        const char *name;
        bal_link link;
    } links[] = {{"links.intra", hardware->intra_node}, {"links.inter", hardware->inter_node}};
    for (size_t row = 0; row < sizeof links / sizeof links[0]; row++) {
        model_assume(list, links[row].name, hardware->links_origin.kind,
                     hardware->links_origin.text, "%.6g GB/s, %" PRId64 " ns",
                     (double)links[row].link.bytes_per_s / 1e9, links[row].link.latency_ns);
    }
}

/// Which dispatcher a run has is seldom told. Over nodes it is DeepEP's or the like; in one, where
/// it matters less, either: the middle. Source: NVIDIA, Megatron-Bridge, MoE dispatcher selection.
static void choose_deduplication(model_costs *costs, model_assumption_list *list)
{
    const bal_group *group = &costs->groups.expert;
    double *share = &costs->shape.parallel.expert_deduplication;
    if (*share >= 0 || group->rank_count == 1) return;
    const bool spans_nodes = group->rank_count > group->node_rank_count;
    *share = spans_nodes ? 1 : 0.5;
    model_assume(list, "expert_deduplication",
                 spans_nodes ? MODEL_ORIGIN_PRESET : MODEL_ORIGIN_ASSUMED,
                 "1: a token is sent once to each GPU (DeepEP, over nodes); 0: to each expert",
                 "%g", *share);
}

enum {
    PASS_PARTS = MODEL_PASS_COUNT * MODEL_COST_PART_COUNT,
    COST_NUMBERS = BAL_COST_ARRAY_COUNT + MODEL_PASS_COUNT + PASS_PARTS
};

/// What a layer costs, once by name and once as a list.
typedef union cost_row {
    struct {
        int64_t pass_ns[MODEL_PASS_COUNT]; // from here in the order of bal_layer_costs
        int64_t parameters;
        int64_t state_bytes;
        int64_t activation_bytes;
        int64_t gradient_bytes;
        int64_t message_bytes;
        int64_t reduction_ns;
        int64_t flop[MODEL_PASS_COUNT];
        int64_t part_ns[MODEL_PASS_COUNT][MODEL_COST_PART_COUNT];
    };
    int64_t number[COST_NUMBERS];
} cost_row;

static bool is_head(const model_costs *costs, int row)
{
    return row > costs->config.layer_count;
}

/// Row 0 is the embedding, the last one the head.
static model_layer_work work_of_row(const model_costs *costs, int row, model_pass pass)
{
    if (row == 0) return model_embedding_work(&costs->config, &costs->shape, pass);
    if (is_head(costs, row)) return model_head_work(&costs->config, &costs->shape, pass);
    return model_layer_work_of(&costs->config, &costs->shape, row - 1, pass);
}

static model_collectives collectives_of_row(const model_costs *costs, int row, model_pass pass,
                                            int64_t attention_ns)
{
    const model_config *config = &costs->config;
    const model_shape *shape = &costs->shape;
    const model_groups *groups = &costs->groups;
    if (row == 0) return model_embedding_collectives(config, shape, groups, pass);
    if (is_head(costs, row)) return model_head_collectives(config, shape, groups, pass);
    return model_layer_collectives(config, shape, groups, row - 1, pass, attention_ns);
}

/// A pass whose kernels are shorter than starting them lasts as long as the host takes.
static int64_t waits_for_host_ns(const model_costs *costs, model_launches launches,
                                 const int64_t part_ns[MODEL_COST_PART_COUNT])
{
    const model_parallel *parallel = &costs->shape.parallel;
    const int64_t host_ns = parallel->cuda_graphs ? 0 : model_host_ns(launches, &costs->hardware);
    const int64_t hidden_ns = parallel->blocking_launches ? 0 : sum_parts_ns(part_ns);
    return host_ns > hidden_ns ? host_ns - hidden_ns : 0;
}

static void fill_pass(const model_costs *costs, int row, model_pass pass, cost_row *cost)
{
    const model_layer_work work = work_of_row(costs, row, pass);
    const model_dtype dtype = costs->shape.dtype;
    int64_t *part_ns = cost->part_ns[pass];
    // The head's matrix, whose gradients reach every layer, stays wide.
    const bool is_layer = row > 0 && !is_head(costs, row);
    const model_config view =
        is_layer ? model_config_layer(&costs->config, row - 1) : costs->config;
    fill_work_ns(costs, &view, &work, pass, is_head(costs, row) ? model_dtype_wide(dtype) : dtype,
                 part_ns);
    const model_collectives collectives =
        collectives_of_row(costs, row, pass, part_ns[MODEL_COST_ATTENTION]);
    part_ns[MODEL_COST_TENSOR] = collectives.tensor_ns;
    part_ns[MODEL_COST_CONTEXT] = collectives.context_ns;
    part_ns[MODEL_COST_EXPERT] = collectives.expert_ns;
    part_ns[MODEL_COST_HOST] = waits_for_host_ns(costs, work.launches, part_ns);
    cost->flop[pass] = model_work_flop(&work);
}

/// What F took of what B makes again, collectives included.
static int64_t remade_of_row(const model_costs *costs, int row, unsigned remakes,
                             const int64_t forward_ns[MODEL_COST_PART_COUNT],
                             int64_t part_ns[MODEL_COST_PART_COUNT])
{
    const model_layer_work work =
        model_layer_remade_work(&costs->config, &costs->shape, row - 1, remakes);
    const model_config view = model_config_layer(&costs->config, row - 1);
    if ((remakes & MODEL_REMAKES_LAYER) != 0) {
        memcpy(part_ns, forward_ns, MODEL_COST_PART_COUNT * sizeof *part_ns);
        if ((remakes & MODEL_REMAKES_NO_END) == 0) return model_work_flop(&work);
        const model_collectives collectives = collectives_of_row(costs, row, MODEL_PASS_FORWARD, 0);
        fill_work_ns(costs, &view, &work, MODEL_PASS_FORWARD, costs->shape.dtype, part_ns);
        part_ns[MODEL_COST_TENSOR] -= collectives.last_tensor_ns;
        part_ns[MODEL_COST_EXPERT] -= collectives.last_expert_ns;
        part_ns[MODEL_COST_HOST] = 0;
        part_ns[MODEL_COST_HOST] = waits_for_host_ns(costs, work.launches, part_ns);
        return model_work_flop(&work);
    }
    fill_work_ns(costs, &view, &work, MODEL_PASS_FORWARD, costs->shape.dtype, part_ns);
    if ((remakes & MODEL_REMAKES_CORE) != 0) {
        part_ns[MODEL_COST_CONTEXT] = forward_ns[MODEL_COST_CONTEXT];
    }
    if ((remakes & MODEL_REMAKES_MLP) != 0) {
        part_ns[MODEL_COST_EXPERT] = forward_ns[MODEL_COST_EXPERT];
        part_ns[MODEL_COST_TENSOR] =
            collectives_of_row(costs, row, MODEL_PASS_FORWARD, 0).mlp_tensor_ns;
    }
    return model_work_flop(&work);
}

/// B computes again what F has not kept.
static void add_recomputation(const model_costs *costs, int row, cost_row *cost)
{
    const model_shape *shape = &costs->shape;
    int64_t *backward_ns = cost->part_ns[MODEL_PASS_BACKWARD_INPUT];
    int64_t *backward_flop = &cost->flop[MODEL_PASS_BACKWARD_INPUT];
    int64_t remade_ns[MODEL_COST_PART_COUNT] = {0};
    if (row == 0 || is_head(costs, row)) return;
    const unsigned remakes =
        model_layer_remakes(&shape->parallel, row - 1, costs->config.layer_count);
    if (remakes == 0 || remakes == MODEL_REMAKES_NOTHING) return;
    const int64_t flop =
        remade_of_row(costs, row, remakes, cost->part_ns[MODEL_PASS_FORWARD], remade_ns);
    *backward_flop = saturating_add(*backward_flop, flop);
    for (int part = 0; part < MODEL_COST_PART_COUNT; part++) {
        backward_ns[part] = saturating_add(backward_ns[part], remade_ns[part]);
    }
}

/// Bytes that a row keeps from F to B on the host.
static int64_t offloaded_of_row(const model_costs *costs, int row)
{
    model_shape whole = costs->shape;
    if (whole.parallel.recompute != MODEL_RECOMPUTE_OFFLOAD) return 0;
    if (row == 0 || is_head(costs, row)) return 0;
    const int64_t left = model_layer_memory(&costs->config, &whole, row - 1).activation_bytes;
    whole.parallel.recompute = MODEL_RECOMPUTE_NONE;
    return model_layer_memory(&costs->config, &whole, row - 1).activation_bytes - left;
}

/// They travel beside the layers before and after: what remains is waiting for the host.
static void add_offloading(const model_costs *costs, int row, cost_row *cost)
{
    const int64_t bytes = offloaded_of_row(costs, row);
    if (bytes == 0) return;
    const int64_t travel_ns = bal_link_transfer_ns(costs->hardware.host, bytes);
    for (int pass = 0; pass < MODEL_PASS_BACKWARD_WEIGHT; pass++) {
        const int64_t busy_ns = sum_parts_ns(cost->part_ns[pass]);
        if (travel_ns > busy_ns) cost->part_ns[pass][MODEL_COST_HOST] += travel_ns - busy_ns;
    }
}

/// Weights and gradients that replicas send each other in every pass travel beside the layers
/// before and after: a pass lasts as long as the longer of the two.
static void add_sharding(const model_replica_traffic *traffic, cost_row *cost)
{
    const int64_t wanted_ns[MODEL_PASS_COUNT] = {
        [MODEL_PASS_FORWARD] = traffic->forward_ns,
        [MODEL_PASS_BACKWARD_INPUT] = traffic->backward_ns,
        [MODEL_PASS_BACKWARD_WEIGHT] = traffic->gradient_ns,
    };
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        const int64_t hidden_ns = sum_parts_ns(cost->part_ns[pass]);
        cost->part_ns[pass][MODEL_COST_SHARDING] =
            wanted_ns[pass] > hidden_ns ? wanted_ns[pass] - hidden_ns : 0;
    }
}

/// Parameters of a row that one GPU has, by who else has them.
typedef struct row_parameters {
    int64_t dense;
    int64_t expert;
} row_parameters;

static row_parameters parameters_of_row(const model_costs *costs, int row)
{
    const model_config slice = model_gpu_slice(&costs->config, &costs->shape.parallel);
    if (row == 0) return (row_parameters){model_embedding_parameters(&slice), 0};
    if (is_head(costs, row)) return (row_parameters){model_head_parameters(&slice), 0};
    const int64_t all = model_layer_parameters(&slice, row - 1);
    const int64_t expert = model_layer_expert_parameters(&slice, row - 1);
    return (row_parameters){all - expert, expert};
}

static model_replica_traffic traffic_of_row(const model_costs *costs, row_parameters parameters)
{
    const model_sharding sharding = costs->shape.parallel.sharding;
    const model_parameter_bytes bytes = costs->parameter_bytes;
    const model_replica_traffic dense =
        model_replica_traffic_of(parameters.dense, bytes, sharding, &costs->groups.replicas);
    const model_replica_traffic expert = model_replica_traffic_of(
        parameters.expert, bytes, sharding, &costs->groups.expert_replicas);
    return (model_replica_traffic){
        .step_ns = sum_ns(dense.step_ns, expert.step_ns),
        .forward_ns = sum_ns(dense.forward_ns, expert.forward_ns),
        .backward_ns = sum_ns(dense.backward_ns, expert.backward_ns),
        .gradient_ns = sum_ns(dense.gradient_ns, expert.gradient_ns),
    };
}

static int64_t state_of_row(const model_costs *costs, row_parameters parameters)
{
    const model_sharding sharding = costs->shape.parallel.sharding;
    const int64_t all = saturating_add(parameters.dense, parameters.expert);
    if (sharding == MODEL_SHARDING_NONE) {
        return saturating_multiply(all, costs->state_bytes_per_parameter);
    }
    return saturating_add(model_state_bytes(parameters.dense, costs->parameter_bytes, sharding,
                                            costs->groups.replicas.rank_count),
                          model_state_bytes(parameters.expert, costs->parameter_bytes, sharding,
                                            costs->groups.expert_replicas.rank_count));
}

/// The step of a row. What a GPU owns of it: the gradient is read for the norm, read and written by
/// clipping, and read by Adam, which reads and writes the weight in 32 bits and two moments; then
/// the weight is read, narrowed and written. Of all gradients that it adds up: zeroed, and where
/// there are replicas scaled by their number and looked through for NaN, before they are sent.
/// Source: Megatron-Core, param_and_grad_buffer.py and distrib_optimizer.py.
static int64_t update_of_row(const model_costs *costs, row_parameters parameters)
{
    enum { STEP_BYTES = 4 + 8 + 4 + 3 * 8 + 4 + 2, CLEARED_BYTES = 4, PREPARED_BYTES = 12 };
    const model_parameter_bytes owned = {.optimizer = STEP_BYTES};
    const model_sharding sharding = costs->shape.parallel.sharding;
    const int dense_replicas = costs->groups.replicas.rank_count;
    const int expert_replicas = costs->groups.expert_replicas.rank_count;
    const int64_t step =
        saturating_add(model_state_bytes(parameters.dense, owned, sharding, dense_replicas),
                       model_state_bytes(parameters.expert, owned, sharding, expert_replicas));
    const model_parameter_bytes summed = {.gradient = CLEARED_BYTES +
                                                      (dense_replicas > 1 ? PREPARED_BYTES : 0)};
    const int64_t gradients =
        saturating_add(model_state_bytes(parameters.dense, summed, sharding, dense_replicas),
                       model_state_bytes(parameters.expert, summed, sharding, expert_replicas));
    return model_streams_ns(saturating_add(step, gradients), 0, &costs->hardware);
}

static model_memory memory_of_row(const model_costs *costs, int row)
{
    if (row == 0) return model_embedding_memory(&costs->config, &costs->shape);
    if (is_head(costs, row)) return model_head_memory(&costs->config, &costs->shape);
    return model_layer_memory(&costs->config, &costs->shape, row - 1);
}

/// What a pass of this row holds for itself alone, see model_costs.working_bytes.
static int64_t working_of_row(const model_costs *costs, int row)
{
    const model_sharding sharding = costs->shape.parallel.sharding;
    const row_parameters parameters = parameters_of_row(costs, row);
    const int64_t all = saturating_add(parameters.dense, parameters.expert);
    const int gathered = sharding >= MODEL_SHARDING_PARAMETERS ? 2 : 0; // in use, and on its way
    const int unscattered = sharding >= MODEL_SHARDING_GRADIENTS ? 1 : 0;
    int64_t bytes = saturating_multiply(all, gathered * costs->parameter_bytes.weight +
                                                 unscattered * costs->parameter_bytes.gradient);
    if (row > 0 && !is_head(costs, row)) {
        model_shape whole = costs->shape;
        whole.parallel.recompute = MODEL_RECOMPUTE_NONE;
        const int64_t made = model_layer_memory(&costs->config, &whole, row - 1).activation_bytes;
        bytes = saturating_add(bytes, made - memory_of_row(costs, row).activation_bytes);
        bytes = saturating_add(bytes, offloaded_of_row(costs, row)); // another is on its way
    }
    return bytes;
}

/// @param cost zeroed
static void fill_row(const model_costs *costs, int row, cost_row *cost)
{
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        fill_pass(costs, row, (model_pass)pass, cost);
    }
    add_recomputation(costs, row, cost);
    add_offloading(costs, row, cost);
    const row_parameters parameters = parameters_of_row(costs, row);
    const model_replica_traffic traffic = traffic_of_row(costs, parameters);
    add_sharding(&traffic, cost);
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        cost->pass_ns[pass] = sum_parts_ns(cost->part_ns[pass]);
    }
    const model_memory memory = memory_of_row(costs, row);
    cost->parameters = saturating_add(parameters.dense, parameters.expert);
    cost->state_bytes = state_of_row(costs, parameters);
    cost->activation_bytes = memory.activation_bytes;
    cost->gradient_bytes = memory.gradient_bytes;
    cost->message_bytes =
        is_head(costs, row) ? 0 : model_message_bytes(&costs->config, &costs->shape);
    cost->reduction_ns = traffic.step_ns;
}

/// Parameters of a GPU that the modules of multi-token prediction have beside those of their
/// layers: each a matrix and three norms, and once the embedding, where the head is not its copy.
static row_parameters prediction_parameters(const model_costs *costs)
{
    const model_config *config = &costs->config;
    const int tensor = model_parallel_filled(costs->shape.parallel).tensor;
    const model_config slice = model_gpu_slice(config, &costs->shape.parallel);
    const int64_t hidden = config->hidden_size;
    const int64_t matrix = saturating_multiply(2 * hidden, (hidden + tensor - 1) / tensor);
    const int64_t modules =
        saturating_multiply(matrix + 3 * hidden, config->prediction_layer_count);
    const int64_t embedding = config->has_tied_embeddings ? 0 : model_embedding_parameters(&slice);
    return (row_parameters){saturating_add(modules, embedding), 0};
}

/// What a module's own matrix and norms take in a pass; its time is returned.
static int64_t add_prediction_matrix(const model_costs *costs, model_pass pass, cost_row *head)
{
    const int64_t count = costs->config.prediction_layer_count;
    const model_layer_work work = model_prediction_work(&costs->config, &costs->shape, pass);
    int64_t part_ns[MODEL_COST_PART_COUNT] = {0};
    fill_work_ns(costs, &costs->config, &work, pass, costs->shape.dtype, part_ns);
    for (int part = 0; part < MODEL_COST_PART_COUNT; part++) {
        int64_t *to = &head->part_ns[pass][part];
        *to = saturating_add(*to, saturating_multiply(count, part_ns[part]));
    }
    int64_t *flop = &head->flop[pass];
    *flop = saturating_add(*flop, saturating_multiply(count, model_work_flop(&work)));
    return saturating_multiply(count, sum_parts_ns(part_ns));
}

/// Modules of multi-token prediction stand beside the head, in its row: each has a layer like the
/// last one, with a matrix of its own before it, and goes through the head's matrix once more.
/// Source: DeepSeek-V3, arXiv 2412.19437, section 2.2; Megatron-Core keeps them with the loss.
static void add_prediction(model_costs *costs, const cost_row *last, int64_t last_update_ns,
                           cost_row *head)
{
    const int64_t count = costs->config.prediction_layer_count;
    const row_parameters own = prediction_parameters(costs);
    if (count == 0) return;
    for (size_t each = 0; each < COST_NUMBERS; each++) {
        int64_t *number = &head->number[each];
        const bool is_shared = number == &head->parameters || number == &head->state_bytes ||
                               number == &head->reduction_ns;
        if (number == &head->message_bytes) continue;
        const int64_t module = saturating_add(last->number[each], is_shared ? 0 : *number);
        *number = saturating_add(*number, saturating_multiply(count, module));
    }
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        int64_t *ns = &head->pass_ns[pass];
        *ns = saturating_add(*ns, add_prediction_matrix(costs, (model_pass)pass, head));
    }
    const int64_t joined_bytes = saturating_multiply(
        2 * count, model_message_bytes(&costs->config, &costs->shape)); // its input
    const struct {
        int64_t *number;
        int64_t more;
    } sums[] = {{&head->activation_bytes, joined_bytes},
                {&head->gradient_bytes, joined_bytes},
                {&head->parameters, own.dense},
                {&head->state_bytes, state_of_row(costs, own)},
                {&head->reduction_ns, traffic_of_row(costs, own).step_ns}};
    for (size_t sum = 0; sum < sizeof sums / sizeof sums[0]; sum++) {
        *sums[sum].number = saturating_add(*sums[sum].number, sums[sum].more);
    }
    costs->update_ns = sum_ns(costs->update_ns, update_of_row(costs, own));
    for (int64_t module = 0; module < count; module++) {
        costs->update_ns = sum_ns(costs->update_ns, last_update_ns);
    }
}

/// Refuses what saturated or would not survive being added up over a stage.
static status check_row(const cost_row *cost, int row, error_message *err)
{
    const struct {
        const char *name;
        int64_t value;
    } costs[] = {
        {"forward_ns", cost->pass_ns[MODEL_PASS_FORWARD]},
        {"forward_flop", cost->flop[MODEL_PASS_FORWARD] / 4},
        {"backward_input_ns", cost->pass_ns[MODEL_PASS_BACKWARD_INPUT]},
        {"backward_input_flop", cost->flop[MODEL_PASS_BACKWARD_INPUT] / 4},
        {"backward_weight_ns", cost->pass_ns[MODEL_PASS_BACKWARD_WEIGHT]},
        {"backward_weight_flop", cost->flop[MODEL_PASS_BACKWARD_WEIGHT] / 4},
        {"activation_bytes", cost->activation_bytes},
        {"gradient_bytes", cost->gradient_bytes},
        {"state_bytes", cost->state_bytes},
        {"reduction_ns", cost->reduction_ns},
    };
    for (size_t each = 0; each < sizeof costs / sizeof costs[0]; each++) {
        if (costs[each].value < COST_MAX) continue;
        return error_set(err, STATUS_INVALID, "%s of layer %d: too large to be counted in 64 bits",
                         costs[each].name, row);
    }
    return STATUS_OK;
}

/// Turns rows into the arrays that the costs have.
static void put_rows(const cost_row *rows, int row_count, arena *memory, model_costs *costs)
{
    const int64_t **arrays[COST_NUMBERS];
    costs->layers = (bal_layer_costs){.layer_count = row_count,
                                      .microbatch_count = 1,
                                      .has_split = true,
                                      .embedding = true,
                                      .head = true};
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        arrays[array] = &costs->layers.arrays[array];
    }
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        arrays[BAL_COST_ARRAY_COUNT + pass] = &costs->flop[pass];
    }
    for (int part = 0; part < PASS_PARTS; part++) {
        arrays[BAL_COST_ARRAY_COUNT + MODEL_PASS_COUNT + part] =
            &costs->part_ns[part / MODEL_COST_PART_COUNT][part % MODEL_COST_PART_COUNT];
    }
    for (int number = 0; number < COST_NUMBERS; number++) {
        int64_t *array = arena_array(memory, (size_t)row_count, sizeof *array);
        for (int row = 0; row < row_count; row++) {
            array[row] = rows[row].number[number];
        }
        *arrays[number] = array;
    }
}

/// What the costs of a layer's row follow from, besides model and shape.
static unsigned kind_of_row(const model_costs *costs, int row)
{
    const model_config *config = &costs->config;
    const int layer = row - 1;
    const unsigned parts = config->layer_parts != NULL ? config->layer_parts[layer] : 0;
    const unsigned remakes =
        model_layer_remakes(&costs->shape.parallel, layer, config->layer_count);
    return remakes << 9 | parts << 1 | config->is_moe[layer];
}

/// The last layer in front of a row that costs the same, among the few nearest; 0: none.
static int like_row(const model_costs *costs, int row)
{
    enum { NEAREST = 8 };
    if (row < 2 || is_head(costs, row)) return 0;
    for (int other = row - 1; other >= 1 && other >= row - NEAREST; other--) {
        if (kind_of_row(costs, other) == kind_of_row(costs, row)) return other;
    }
    return 0;
}

/// Computes all rows once shape and state bytes are chosen.
static status fill_costs(model_costs *costs, arena *memory, error_message *err)
{
    const int row_count = costs->config.layer_count + 2;
    cost_row *rows = arena_array(memory, (size_t)row_count, sizeof *rows);
    int64_t *update_ns = arena_array(memory, (size_t)row_count, sizeof *update_ns);
    for (int row = 0; row < row_count; row++) {
        const int like = like_row(costs, row);
        if (like > 0) {
            rows[row] = rows[like];
            update_ns[row] = update_ns[like];
            costs->update_ns = sum_ns(costs->update_ns, update_ns[row]);
            continue;
        }
        fill_row(costs, row, &rows[row]);
        TRY(check_row(&rows[row], row, err));
        update_ns[row] = update_of_row(costs, parameters_of_row(costs, row));
        costs->update_ns = sum_ns(costs->update_ns, update_ns[row]);
        const int64_t working = working_of_row(costs, row);
        if (working > costs->working_bytes) costs->working_bytes = working;
    }
    const int last = row_count - 2;
    add_prediction(costs, &rows[last], update_ns[last], &rows[row_count - 1]);
    TRY(check_row(&rows[row_count - 1], row_count - 1, err));
    put_rows(rows, row_count, memory, costs);
    costs->total_parameters = model_total_parameters(&costs->config);
    costs->active_parameters = model_active_parameters(&costs->config);
    return STATUS_OK;
}

/// One communicator for each kind of group, and one of all ranks, which pipelines use.
static int64_t reserve_of(const model_hardware *hardware, const model_groups *groups)
{
    const bal_group *const all[] = {&groups->tensor, &groups->context, &groups->expert,
                                    &groups->replicas};
    int64_t communicators = 1;
    for (size_t group = 0; group < sizeof all / sizeof all[0]; group++) {
        communicators += all[group]->rank_count > 1;
    }
    return hardware->context_bytes + hardware->allocator_bytes +
           communicators * hardware->communicator_bytes;
}

static double forward_flop_of(const model_costs *costs)
{
    const model_config *config = &costs->config;
    const int rows = costs->layers.layer_count;
    model_costs alone = *costs;
    alone.shape.parallel = (model_parallel){.data = costs->shape.parallel.data};
    double flop = 0;
    for (int row = 0; row < rows; row++) {
        const model_layer_work work = work_of_row(&alone, row, MODEL_PASS_FORWARD);
        // Modules of multi-token prediction have a layer like the last one, and the head once more.
        const bool is_repeated = row >= rows - 2;
        const int64_t count = 1 + (is_repeated ? config->prediction_layer_count : 0);
        flop += (double)count * (double)model_work_flop(&work);
    }
    if (config->prediction_layer_count == 0) return flop;
    const model_layer_work matrix = model_prediction_work(config, &alone.shape, MODEL_PASS_FORWARD);
    return flop + (double)config->prediction_layer_count * (double)model_work_flop(&matrix);
}

status model_costs_build(const model_config *config, const model_hardware *hardware,
                         const model_training *training, const char *config_origin,
                         const char *hardware_origin, arena *memory, model_costs *costs,
                         error_message *err)
{
    model_assumption_list list = {.memory = memory};
    model_training_choice choice;
    const char *config_text = arena_string(memory, config_origin);
    const char *hardware_text = arena_string(memory, hardware_origin);
    TRY(model_training_choose(training, config, config_text, hardware, &list, &choice, err));
    model_costs built = {
        .config = choice.config,
        .hardware = *hardware,
        .shape = choice.shape,
        .groups = model_parallel_groups(&choice.shape.parallel, hardware),
        .state_bytes_per_parameter = choice.state_bytes_per_parameter,
        .parameter_bytes = choice.parameter_bytes,
    };
    assume_hardware(hardware, &built.shape, hardware_text, &list);
    assume_links(hardware, &built.shape.parallel, &list);
    TRY(choose_host(hardware, &built.shape.parallel, &list, err));
    TRY(check_operators(config, &built.shape.parallel, err));
    assume_overhead(hardware, &list);
    choose_deduplication(&built, &list);
    built.reserve_bytes = reserve_of(hardware, &built.groups);
    TRY(fill_costs(&built, memory, err));
    built.forward_flop = forward_flop_of(&built);
    built.assumptions = list.rows;
    built.assumption_count = list.count;
    *costs = built;
    return STATUS_OK;
}

status model_costs_from_files(const char *config_name_or_path, const char *hardware_name_or_path,
                              const model_training *training, arena *memory, model_costs *costs,
                              error_message *err)
{
    model_config config;
    model_hardware hardware;
    TRY(model_config_open(config_name_or_path, NULL, memory, &config, err));
    TRY(model_hardware_open(hardware_name_or_path, NULL, memory, &hardware, err));
    return model_costs_build(&config, &hardware, training, config_name_or_path,
                             hardware_name_or_path, memory, costs, err);
}

static status costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                       error_message *err)
{
    (void)iteration;
    (void)err;
    model_source *source = context;
    *costs = source->costs->layers;
    *changed = !source->was_asked;
    source->was_asked = true;
    return STATUS_OK;
}

bal_cost_source model_source_init(model_source *source, const model_costs *costs)
{
    *source = (model_source){.costs = costs};
    return (bal_cost_source){
        .context = source,
        .layer_count = costs->layers.layer_count,
        .iteration_count = 1,
        .costs_at = costs_at,
    };
}

void model_layer_shares_of_costs(const model_costs *costs, arena *memory,
                                 model_layer_shares *shares)
{
    static const model_cost_part of_part[MODEL_PART_COUNT] = {
        [MODEL_PART_PROJECTION] = MODEL_COST_PROJECTION,
        [MODEL_PART_ATTENTION] = MODEL_COST_ATTENTION,
        [MODEL_PART_MLP] = MODEL_COST_MLP,
        [MODEL_PART_ELEMENTWISE] = MODEL_COST_ELEMENTWISE,
        [MODEL_PART_EXCHANGE] = MODEL_COST_CONTEXT,
    };
    const int64_t *const pass_ns[MODEL_PASS_COUNT] = {costs->layers.forward_ns,
                                                      costs->layers.backward_input_ns,
                                                      costs->layers.backward_weight_ns};
    const int layer_count = costs->layers.layer_count;
    const size_t layers = (size_t)layer_count;
    double *weight_share = arena_array(memory, layers, sizeof *weight_share);
    *shares = (model_layer_shares){layer_count, .weight_of_backward = weight_share};
    for (int layer = 0; layer < layer_count; layer++) {
        const int64_t weight = costs->layers.backward_weight_ns[layer];
        const int64_t backward = costs->layers.backward_input_ns[layer] + weight;
        weight_share[layer] = backward > 0 ? (double)weight / (double)backward : 0.5;
    }
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        for (int part = 0; part < MODEL_PART_COUNT; part++) {
            double *share = arena_array(memory, layers, sizeof *share);
            shares->share[pass][part] = share;
            for (int layer = 1; layer + 1 < layer_count; layer++) {
                const int64_t whole = pass_ns[pass][layer];
                const int64_t part_ns = costs->part_ns[pass][of_part[part]][layer];
                if (whole > 0) share[layer] = (double)part_ns / (double)whole;
            }
        }
    }
}
