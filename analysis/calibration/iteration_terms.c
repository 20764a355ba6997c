/// Names, ranges and quantities of the terms of an iteration.
#include "analysis/calibration/calibration.h"

#include <math.h>
#include <string.h>

/// Of an interval that holds 9 of 10 of a normal distribution: half its width over its deviation.
static const double reach = 1.6448536;
/// Generation and number format scale all of a GPU: 9 of 10 within a factor of 4, up or down.
static const double speed_deviation = 0.843;
/// Share of a factor's variance that related shapes have in common; the rest is a shape's own, as
/// libraries choose other kernels.
static const double related_share = 0.6;
static const double related_doublings = 3; // that leave 1/e of it
/// The embedding's share of what a microbatch costs besides layers: about 8 of the 32 kernels
/// around the layers in Megatron-LM are its.
static const double embedding_share = 0.25;

/// Of speed: what the cost model says of an A100, with and without recomputation, and as far to
/// both sides. The bytes of scores, activations and logits are those that are kept; kernels read
/// and write them several times, a score of 5 kept bytes 22 bytes (fused softmax) to 70 (scale,
/// mask and dropout on their own, with recomputation). Launches of a layer: 60 to 150 kernels,
/// forward and backward, of 5 to 50 us.
const ana_term_info ana_terms[ANA_TERM_COUNT] = {
    [ANA_TERM_LAYER] = {"layer", "ms per layer and microbatch", ANA_PART_LAYERS, 0.3, 8,
                        ANA_TERM_OF_LAUNCHES},
    [ANA_TERM_PRODUCTS] = {"matrix products", "ms per TFLOP", ANA_PART_LAYERS, 2.7, 10,
                           ANA_TERM_OF_SPEED},
    [ANA_TERM_ATTENTION] = {"attention", "ms per TFLOP", ANA_PART_LAYERS, 3, 12, ANA_TERM_OF_SPEED},
    [ANA_TERM_SCORES] = {"attention scores", "ms per GB", ANA_PART_LAYERS, 2, 12,
                         ANA_TERM_OF_SPEED},
    [ANA_TERM_ACTIVATIONS] = {"activations", "ms per GB", ANA_PART_LAYERS, 0.7, 4,
                              ANA_TERM_OF_SPEED},
    [ANA_TERM_TENSOR_MESSAGES] = {"tensor messages", "ms per ring step", ANA_PART_LAYERS, 0.003,
                                  0.05, ANA_TERM_OF_LAUNCHES},
    [ANA_TERM_TENSOR_BYTES] = {"tensor bytes", "ms per GB", ANA_PART_LAYERS, 1.5, 50,
                               ANA_TERM_OF_ITS_OWN},
    [ANA_TERM_TENSOR_NODES] = {"tensor bytes between nodes", "ms per GB", ANA_PART_LAYERS, 10, 400,
                               ANA_TERM_OF_ITS_OWN},
    [ANA_TERM_MICROBATCH] = {"microbatch", "ms per microbatch", ANA_PART_HEAD, 0.3, 8,
                             ANA_TERM_OF_ITS_OWN},
    [ANA_TERM_HEAD] = {"head", "ms per TFLOP", ANA_PART_HEAD, 2.5, 15, ANA_TERM_OF_SPEED},
    [ANA_TERM_LOGITS] = {"logits", "ms per GB", ANA_PART_HEAD, 1, 12, ANA_TERM_OF_SPEED},
    [ANA_TERM_ITERATION] = {"iteration", "ms", ANA_PART_UPDATE, 0.3, 50, ANA_TERM_OF_ITS_OWN},
    [ANA_TERM_UPDATE] = {"update", "ms per 1e9 parameters", ANA_PART_UPDATE, 5, 100,
                         ANA_TERM_OF_ITS_OWN},
    [ANA_TERM_REDUCTION_STEPS] = {"reduction steps", "ms per ring step", ANA_PART_REDUCTION, 0.005,
                                  0.1, ANA_TERM_OF_ITS_OWN},
    [ANA_TERM_REDUCTION_BYTES] = {"reduction bytes", "ms per GB", ANA_PART_REDUCTION, 1.5, 50,
                                  ANA_TERM_OF_ITS_OWN},
    [ANA_TERM_REDUCTION_NODES] = {"reduction between nodes", "ms per GB", ANA_PART_REDUCTION, 10,
                                  400, ANA_TERM_OF_ITS_OWN},
    [ANA_TERM_TIED] = {"tied embedding", "ms per GB", ANA_PART_COUNT, 0.5, 100,
                       ANA_TERM_OF_ITS_OWN},
    [ANA_TERM_TRANSFER] = {"transfer", "ms per GB", ANA_PART_COUNT, 3, 100, ANA_TERM_OF_ITS_OWN},
    [ANA_TERM_BETWEEN] = {"transfer between nodes", "ms per GB", ANA_PART_COUNT, 10, 400,
                          ANA_TERM_OF_ITS_OWN},
};

const char *const ana_part_names[ANA_PART_COUNT] = {"layers", "head", "update", "reduction"};

double ana_term_log_mean(ana_term term)
{
    return log(ana_terms[term].low * ana_terms[term].high) / 2;
}

double ana_term_log_covariance(ana_term left, ana_term right)
{
    double covariance = 0;
    if (ana_terms[left].kind == ANA_TERM_OF_SPEED && ana_terms[right].kind == ANA_TERM_OF_SPEED) {
        covariance = speed_deviation * speed_deviation;
    }
    if (left != right) return covariance;
    const double deviation = log(ana_terms[left].high / ana_terms[left].low) / 2 / reach;
    return covariance + deviation * deviation;
}

/// The terms of a layer, over all layers that the slowest stage and those before and after it work
/// on one after another: (m + p - 1) * L / p.
static void layer_quantities(const ana_run_shape *shape, int gpus_per_node, double *quantities)
{
    const double pipeline = (double)shape->pipeline_degree;
    const double slots = (double)ana_run_microbatches(shape) + pipeline - 1;
    const double passes = slots * (double)shape->layer_count / pipeline;
    const double tokens = (double)shape->microbatch_size * (double)shape->sequence_length;
    const double hidden = (double)shape->hidden_size;
    const double sequence = (double)shape->sequence_length;
    const double tensor = (double)shape->tensor_degree;
    const bool leaves = shape->tensor_degree > gpus_per_node;
    quantities[ANA_TERM_LAYER] = passes;
    quantities[ANA_TERM_PRODUCTS] = passes * 72e-12 * tokens * hidden * hidden / tensor;
    quantities[ANA_TERM_ATTENTION] = passes * 12e-12 * tokens * sequence * hidden / tensor;
    quantities[ANA_TERM_SCORES] =
        passes * 5e-9 * tokens * sequence * (double)shape->head_count / tensor;
    quantities[ANA_TERM_ACTIVATIONS] = passes * 1e-9 * tokens * hidden * (10 + 24 / tensor);
    if (shape->tensor_degree == 1) return;
    quantities[ANA_TERM_TENSOR_MESSAGES] =
        passes * 4 * 2 * (tensor - 1); // rings of 2 (t - 1) steps
    const double bytes = passes * 8e-9 * (tensor - 1) / tensor * 2 * tokens * hidden;
    quantities[ANA_TERM_TENSOR_BYTES] = bytes;
    if (leaves) quantities[ANA_TERM_TENSOR_NODES] = bytes / gpus_per_node;
}

/// Embedding, head and loss: at the last stage once per microbatch, but for the embedding's part,
/// which the last stage waits for once.
static void head_quantities(const ana_run_shape *shape, double *quantities)
{
    const double microbatches = (double)ana_run_microbatches(shape);
    const double tokens = (double)shape->microbatch_size * (double)shape->sequence_length;
    const double vocabulary = (double)shape->vocabulary_size / (double)shape->tensor_degree;
    const double beyond = shape->pipeline_degree > 1 ? microbatches - 1 : 0;
    quantities[ANA_TERM_MICROBATCH] = microbatches - embedding_share * beyond;
    quantities[ANA_TERM_HEAD] =
        microbatches * 6e-12 * tokens * (double)shape->hidden_size * vocabulary;
    quantities[ANA_TERM_LOGITS] = microbatches * 4e-9 * tokens * vocabulary;
}

/// Billions of parameters on one GPU of the stage that has most.
static double billion_parameters(const ana_run_shape *shape)
{
    const double hidden = (double)shape->hidden_size;
    const double layers = (double)shape->layer_count / (double)shape->pipeline_degree;
    const double blocks = layers * 12 * hidden * hidden;
    const double embedding = (double)shape->vocabulary_size * hidden;
    return 1e-9 * (blocks + embedding) / (double)shape->tensor_degree;
}

/// Links out of a node that a ring of data-parallel ranks has: those of all its ranks there.
static double ring_links(const ana_run_shape *shape, int gpus_per_node)
{
    const double links = (double)gpus_per_node / (double)shape->tensor_degree;
    return fmax(1, fmin(links, (double)shape->data_degree));
}

/// Gradients of two bytes over a ring of data-parallel ranks; and, as embedding and head are one
/// matrix, of that matrix between the first stage and the last.
static void update_quantities(const ana_run_shape *shape, int gpus_per_node, double *quantities)
{
    const double data = (double)shape->data_degree;
    const double parameters = billion_parameters(shape);
    const double tied = 2e-9 * (double)shape->vocabulary_size * (double)shape->hidden_size /
                        (double)shape->tensor_degree;
    quantities[ANA_TERM_ITERATION] = 1;
    quantities[ANA_TERM_UPDATE] = parameters;
    quantities[ANA_TERM_REDUCTION_STEPS] = 2 * (data - 1);
    const bool leaves = shape->tensor_degree * shape->data_degree > gpus_per_node;
    const double reduced = 2 * (data - 1) / data * 2 * parameters;
    quantities[leaves ? ANA_TERM_REDUCTION_NODES : ANA_TERM_REDUCTION_BYTES] =
        leaves ? reduced / ring_links(shape, gpus_per_node) : reduced;
    if (shape->pipeline_degree == 1) return;
    quantities[ANA_TERM_TIED] = tied;
}

/// The first microbatch on its way to the last stage, and its gradient on the way back.
static void transfer_quantities(const ana_run_shape *shape, int gpus_per_node, double *quantities)
{
    const int64_t stage_gpus = shape->tensor_degree * shape->data_degree;
    int64_t stages_per_node = gpus_per_node / stage_gpus;
    if (stages_per_node < 1) stages_per_node = 1;
    const int64_t between = (shape->pipeline_degree - 1) / stages_per_node;
    const int64_t inside = shape->pipeline_degree - 1 - between;
    const double gigabytes = 2e-9 * (double)shape->microbatch_size *
                             (double)shape->sequence_length * (double)shape->hidden_size;
    quantities[ANA_TERM_TRANSFER] = 2 * (double)inside * gigabytes;
    quantities[ANA_TERM_BETWEEN] = 2 * (double)between * gigabytes;
}

void ana_term_quantities(const ana_run_shape *shape, int gpus_per_node, double *quantities)
{
    memset(quantities, 0, ANA_TERM_COUNT * sizeof *quantities);
    layer_quantities(shape, gpus_per_node, quantities);
    head_quantities(shape, quantities);
    update_quantities(shape, gpus_per_node, quantities);
    transfer_quantities(shape, gpus_per_node, quantities);
}

bool ana_run_has_part(const ana_run_shape *shape, ana_part part)
{
    return part != ANA_PART_REDUCTION || shape->data_degree > 1;
}

ana_part_shape ana_part_shape_of(const ana_run_shape *shape, ana_part part)
{
    ana_part_shape made = {part, {shape->hidden_size, shape->tensor_degree, 1, 1, 1}};
    if (part == ANA_PART_REDUCTION) made.key[2] = shape->data_degree;
    if (part == ANA_PART_UPDATE || part == ANA_PART_REDUCTION) return made;
    made.key[2] = shape->microbatch_size;
    made.key[3] = shape->sequence_length;
    made.key[4] = part == ANA_PART_LAYERS ? shape->head_count : shape->vocabulary_size;
    return made;
}

double ana_shape_correlation(double doublings)
{
    return doublings > 0 ? related_share * exp(-doublings / related_doublings) : 1;
}

double ana_part_correlation(const ana_part_shape *left, const ana_part_shape *right)
{
    double doublings = 0;
    if (left->part != right->part) return 0;
    for (size_t field = 0; field < sizeof left->key / sizeof *left->key; field++) {
        doublings += fabs(log2((double)left->key[field] / (double)right->key[field]));
    }
    return ana_shape_correlation(doublings);
}
