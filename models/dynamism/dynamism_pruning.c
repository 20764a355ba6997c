/// Gradual pruning: matrices lose their smallest weights step by step, over all layers at once.
#include "models/cost/config.h"
#include "models/dynamism/dynamism_case.h"
#include "models/dynamism/pruning.h"

enum { STREAM_SIGMA = 1, POINTS_MAX = 1024, INDEX_BYTES = 4 };

/// Which kernels multiply by a pruned matrix.
enum {
    KERNELS_FASTEST,       ///< in each layer the faster of sparse ones, and dense ones with masks
    KERNELS_SPARSE,        ///< sparse ones from the first pruning on
    KERNELS_SPARSE_ALWAYS, ///< sparse ones from the start, at density 1 too
    KERNELS_COUNT
};

static const char *const kernels_names[] = {"fastest", "sparse", "sparse-always"};
static const char *const schedule_names[] = {"zhu-gupta", "released"};

typedef struct pruning_state {
    model_case of;
    model_pruning_schedule schedule;
    int kernels;                 // of the enumeration
    model_kernel_speed product;  // sparse matrix times dense: F and B
    model_kernel_speed gradient; // dense times dense where weights are left: W
    double *sigma;               // [block_count] spread of a layer's weights
    int64_t *weight_count;       // [block_count] that can be pruned: entries of the matrices
    double *prunable;            // [block_count] share of them among the layer's parameters
    double *index_ratio;  // [block_count] bytes of an index over bytes of state per parameter
    double *transpose_ns; // [block_count] to transpose the layer's matrices at density 1
    double *density;      // [block_count]
    double *whole;        // [layer_count] published
    model_load *load;     // physical
    double sparsity;      // that the arrays hold; negative: they hold none
} pruning_state;

static status prefix(error_message *err)
{
    return error_prefix(err, STATUS_INVALID, "case 'pruning'");
}

static status read_schedule(pruning_state *pruning, error_message *err)
{
    const model_origin published =
        MODEL_PUBLISHED("DynMo: to 90 % from iteration 3000 to 7000, every 1000");
    model_case_parameters *parameters = pruning->of.parameters;
    model_pruning_schedule *schedule = &pruning->schedule;
    int kind = 0;
    const model_parameter name = {"schedule", .whole = &kind, .names = schedule_names,
                                  .name_count = 2,
                                  .from = MODEL_PUBLISHED("Zhu and Gupta, arXiv 1710.01878")};
    TRY(model_parameters_read(parameters, &name, 1, err));
    schedule->as_released = kind == 1;
    const model_parameter rows[] = {
        {"start_iteration", .whole = &schedule->start_iteration,
         .fallback = kind == 1 ? 2999 : 3000, .max = INT32_MAX, .from = published},
        {"end_iteration", .whole = &schedule->end_iteration, .fallback = 7000, .max = INT32_MAX,
         .from = published},
        {"interval", .whole = &schedule->interval, .fallback = 1000, .min = 1, .max = INT32_MAX,
         .from = published},
        {"initial_sparsity", .real = &schedule->initial_sparsity, .max = 1, .from = published},
        {"final_sparsity", .real = &schedule->final_sparsity, .fallback = 0.9, .max = 1,
         .from = published},
    };
    TRY(model_parameters_read(parameters, rows, sizeof rows / sizeof rows[0], err));
    return model_pruning_schedule_check(schedule, err) == STATUS_OK ? STATUS_OK : prefix(err);
}

/// Spreads of the layers' weights: given, or drawn around 1, as only their ratios matter.
static status read_sigma(pruning_state *pruning, error_message *err)
{
    const double *given = NULL;
    int count = 0;
    double spread = 0;
    model_case_parameters *parameters = pruning->of.parameters;
    const model_parameter spread_row = {
        "sigma_spread", .real = &spread, .fallback = 0.2, .max = 0.99,
        .from = MODEL_ASSUMED("no sparsities of layers are published; standard "
                              "deviations uniform within this share of their mean")};
    TRY(model_parameter_doubles(parameters, "sigma", 1e-9, 1e9, pruning->of.block_count, &given,
                                &count, err));
    if (given != NULL && count != pruning->of.block_count) {
        return json_error(model_parameter_ask(parameters, "sigma"), STATUS_INVALID, err,
                          "%d numbers for %d transformer layers", count, pruning->of.block_count);
    }
    TRY(model_parameters_read(parameters, &spread_row, 1, err));
    for (int block = 0; block < pruning->of.block_count; block++) {
        rng random = model_case_stream(pruning->of.seed, STREAM_SIGMA, block, 0, 0);
        const double drawn = 1 + spread * (2 * rng_unit(&random) - 1);
        pruning->sigma[block] = given != NULL ? given[block] : drawn;
    }
    return STATUS_OK;
}

/// The curve of an array of ratios at the stated densities.
static status read_curve(const pruning_state *pruning, const char *key, const double *density,
                         int density_count, model_kernel_speed *curve, error_message *err)
{
    const double *ratio = NULL;
    int count = 0;
    TRY(model_parameter_doubles(pruning->of.parameters, key, 0, 1e6, POINTS_MAX, &ratio, &count,
                                err));
    if (ratio == NULL) return STATUS_OK;
    const json_value member = model_parameter_ask(pruning->of.parameters, key);
    if (count != density_count) {
        return json_error(member, STATUS_INVALID, err, "%d ratios for the %d of kernel_density",
                          count, density_count);
    }
    *curve = (model_kernel_speed){density, ratio, count};
    if (model_kernel_speed_check(curve, err) == STATUS_OK) return STATUS_OK;
    return error_prefix(err, STATUS_INVALID, "case 'pruning': %s", key);
}

/// Where nothing was measured, sparse kernels are taken to be as fast as dense ones and no faster:
/// tensor cores have no use for zeros that stand anywhere.
static void choose_curve(pruning_state *pruning)
{
    static const double one = 1;
    const model_shape *shape = pruning->of.base->shape;
    const bool is_measured = shape != NULL && shape->dtype == MODEL_DTYPE_FLOAT32;
    pruning->product =
        is_measured ? model_kernel_speed_sputnik_a100 : (model_kernel_speed){&one, &one, 1};
    pruning->gradient = pruning->product;
    if (is_measured) {
        model_parameter_note(
            pruning->of.parameters, "kernel_time_ratio",
            MODEL_PUBLISHED("Sputnik against cuBLAS, float32, A100, 4096^3 (Torch-Sputnik); its "
                            "sparse-dense product stands for the sampled one of W too"),
            "%d points, %g at density 0.05 to %g at 0.5", pruning->product.count,
            pruning->product.ratio[0], pruning->product.ratio[pruning->product.count - 1]);
    } else {
        model_parameter_note(pruning->of.parameters, "kernel_time_ratio",
                             MODEL_ASSUMED("nobody has measured sparse kernels that beat dense "
                                           "tensor cores; 32-bit models have a curve"),
                             "1 at every density");
    }
}

static status read_kernels(pruning_state *pruning, error_message *err)
{
    model_case_parameters *parameters = pruning->of.parameters;
    const double *density = NULL;
    int count = 0;
    const model_parameter name = {
        "kernels", .whole = &pruning->kernels, .names = kernels_names, .name_count = KERNELS_COUNT,
        .from = MODEL_ASSUMED("what a system would do that knows both speeds")};
    TRY(model_parameters_read(parameters, &name, 1, err));
    TRY(model_parameter_doubles(parameters, "kernel_density", 0, 1, POINTS_MAX, &density, &count,
                                err));
    const json_value ratios = model_parameter_ask(parameters, "kernel_time_ratio");
    const json_value gradient = model_parameter_ask(parameters, "weight_kernel_time_ratio");
    if (json_is_missing(ratios) && (density != NULL || !json_is_missing(gradient))) {
        return json_error(parameters->object, STATUS_INVALID, err,
                          "a curve needs kernel_density and kernel_time_ratio");
    }
    if (json_is_missing(ratios)) {
        choose_curve(pruning);
        return STATUS_OK;
    }
    TRY(read_curve(pruning, "kernel_time_ratio", density, count, &pruning->product, err));
    pruning->gradient = pruning->product;
    return read_curve(pruning, "weight_kernel_time_ratio", density, count, &pruning->gradient, err);
}

/// Entries of a layer's matrices and their share of its parameters: without a model, all.
static void count_weights(pruning_state *pruning, const bal_layer_costs *costs, int block)
{
    const model_config *config = pruning->of.base->config;
    const int layer = pruning->of.first + block;
    const int64_t held = costs->parameters != NULL ? costs->parameters[layer] : 1;
    pruning->weight_count[block] = held;
    pruning->prunable[block] = 1;
    if (config == NULL || config->layer_count != pruning->of.block_count) return;
    const int64_t all = model_layer_parameters(config, block);
    const int64_t matrices = model_layer_weight_count(config, block);
    pruning->prunable[block] = all > 0 ? (double)matrices / (double)all : 0;
    pruning->weight_count[block] = matrices;
}

/// What a weight's index costs: 4 bytes beside its state, and in B the transposition of the matrix,
/// which reads and writes values and indices.
static void count_indices(pruning_state *pruning, const bal_layer_costs *costs, int weight_bytes,
                          int block)
{
    const int layer = pruning->of.first + block;
    const int64_t held = costs->parameters != NULL ? costs->parameters[layer] : 0;
    const int64_t state = costs->state_bytes != NULL ? costs->state_bytes[layer] : 0;
    pruning->index_ratio[block] = state > 0 ? INDEX_BYTES * (double)held / (double)state : 0;
    const double moved = 2.0 * (weight_bytes + INDEX_BYTES) * (double)held;
    const int64_t bytes = moved < (double)(INT64_MAX / 4) ? (int64_t)moved : INT64_MAX / 4;
    pruning->transpose_ns[block] =
        pruning->prunable[block] * (double)model_case_bytes_ns(pruning->of.base->hardware, bytes);
}

static void carve(pruning_state *pruning)
{
    model_load *loads = pruning->of.load;
    const size_t layers = (size_t)pruning->of.layer_count;
    const size_t blocks = (size_t)pruning->of.block_count;
    pruning->sigma = model_case_ones(pruning->of.memory, blocks);
    pruning->weight_count = arena_array(pruning->of.memory, blocks, sizeof(int64_t));
    pruning->prunable = model_case_ones(pruning->of.memory, blocks);
    pruning->index_ratio = model_case_ones(pruning->of.memory, blocks);
    pruning->transpose_ns = model_case_ones(pruning->of.memory, blocks);
    pruning->density = model_case_ones(pruning->of.memory, blocks);
    model_load load = {
        .parameters = model_case_ones(pruning->of.memory, layers),
        .state = model_case_ones(pruning->of.memory, layers),
        .reduction = model_case_ones(pruning->of.memory, layers),
    };
    loads[MODEL_LOAD_PUBLISHED] = load;
    pruning->whole = loads[MODEL_LOAD_PUBLISHED].whole =
        model_case_ones(pruning->of.memory, layers);
    double *product_ratio = model_case_ones(pruning->of.memory, layers);
    double *gradient_ratio = model_case_ones(pruning->of.memory, layers);
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        load.part[pass][MODEL_PART_MLP] = load.part[pass][MODEL_PART_PROJECTION] =
            pass == MODEL_PASS_BACKWARD_WEIGHT ? gradient_ratio : product_ratio;
    }
    load.added_ns[MODEL_PASS_BACKWARD_INPUT] =
        arena_array(pruning->of.memory, layers, sizeof(int64_t));
    loads[MODEL_LOAD_PHYSICAL] = load;
    pruning->load = &loads[MODEL_LOAD_PHYSICAL];
}

/// Where what is held and moved in compressed rows is less than dense arrays: density (1 + index) <
/// 1.
static void note_break_even(const pruning_state *pruning)
{
    const double index_ratio = pruning->index_ratio[0];
    static const model_origin from = {MODEL_ORIGIN_ASSUMED,
                                      "compressed rows hold and move weights, gradients and "
                                      "optimizer state of what is left, and an index of each"};
    if (index_ratio == 0) return;
    model_parameter_note(pruning->of.parameters, "compressed_state", from,
                         "%g + %d bytes a weight: less than dense from sparsity %.3g on",
                         INDEX_BYTES / index_ratio, INDEX_BYTES, index_ratio / (1 + index_ratio));
}

static status count_layers(pruning_state *pruning, error_message *err)
{
    bal_layer_costs costs;
    const int weight_bytes = model_case_weight_bytes(&pruning->of);
    TRY(model_case_first_costs(&pruning->of, &costs, err));
    for (int block = 0; block < pruning->of.block_count; block++) {
        count_weights(pruning, &costs, block);
        count_indices(pruning, &costs, weight_bytes, block);
    }
    note_break_even(pruning);
    return STATUS_OK;
}

static status pruning_open(void *state, error_message *err)
{
    pruning_state *pruning = state;
    pruning->sparsity = -1;
    carve(pruning);
    TRY(read_schedule(pruning, err));
    TRY(read_sigma(pruning, err));
    TRY(read_kernels(pruning, err));
    TRY(count_layers(pruning, err));
    return STATUS_OK;
}

/// Whether a layer's matrices are kept and multiplied as sparse ones. F, B and W multiply as often.
static bool is_sparse(const pruning_state *pruning, double density)
{
    if (pruning->kernels == KERNELS_SPARSE_ALWAYS) return true;
    if (pruning->sparsity == 0) return false;
    if (pruning->kernels == KERNELS_SPARSE) return true;
    return 2 * model_kernel_speed_at(&pruning->product, density) +
               model_kernel_speed_at(&pruning->gradient, density) <
           3;
}

static void set_layer(pruning_state *pruning, int block)
{
    const model_load *load = pruning->load;
    const int layer = pruning->of.first + block;
    const double density = pruning->density[block];
    const double prunable = pruning->prunable[block];
    const double left = 1 - prunable + prunable * density;
    const bool sparse = is_sparse(pruning, density);
    load->part[MODEL_PASS_FORWARD][MODEL_PART_MLP][layer] =
        sparse ? model_kernel_speed_at(&pruning->product, density) : 1;
    load->part[MODEL_PASS_BACKWARD_WEIGHT][MODEL_PART_MLP][layer] =
        sparse ? model_kernel_speed_at(&pruning->gradient, density) : 1;
    load->added_ns[MODEL_PASS_BACKWARD_INPUT][layer] =
        sparse ? (int64_t)(pruning->transpose_ns[block] * density + 0.5) : 0;
    load->parameters[layer] = left;
    load->reduction[layer] = sparse ? left : 1;
    load->state[layer] = sparse ? left + prunable * density * pruning->index_ratio[block] : 1;
    pruning->whole[layer] = density;
}

/// Fills the arrays for a sparsity, unless they hold it.
static void hold_sparsity(pruning_state *pruning, double sparsity)
{
    if (pruning->sparsity == sparsity) return;
    pruning->sparsity = sparsity;
    model_pruning_densities(pruning->sigma, pruning->weight_count, pruning->of.block_count,
                            sparsity, pruning->density);
    for (int block = 0; block < pruning->of.block_count; block++) {
        set_layer(pruning, block);
    }
}

static status pruning_load_at(void *state, model_load_model load_model, int iteration, int replica,
                              bool *changed, error_message *err)
{
    (void)load_model;
    (void)replica; // masks are the same on all of them
    (void)err;
    pruning_state *pruning = state;
    const double sparsity = model_pruning_sparsity(&pruning->schedule, iteration);
    hold_sparsity(pruning, sparsity);
    *changed =
        iteration == 0 || sparsity != model_pruning_sparsity(&pruning->schedule, iteration - 1);
    return STATUS_OK;
}

const model_dynamism_case model_dynamism_pruning = {
    .name = "pruning",
    .needs_shares = true,
    .state_bytes = sizeof(pruning_state),
    .open = pruning_open,
    .load_at = pruning_load_at,
};
