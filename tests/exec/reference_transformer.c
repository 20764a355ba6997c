#include "tests/exec/reference_transformer.h"
#include "base/arena.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *zeros(size_t count)
{
    double *made = memory_array(count + 1, sizeof *made);
    assert(made != NULL);
    return made;
}

reference_transformer *reference_create(const exec_model *model, exec_layer *const *layers)
{
    reference_transformer *made = memory_array(1, sizeof *made);
    made->model = *model;
    made->layer_count = exec_model_layer_count(model);
    made->layers = memory_array((size_t)made->layer_count, sizeof *made->layers);
    for (int index = 0; index < made->layer_count; index++) {
        reference_layer *layer = &made->layers[index];
        const size_t count = layers[index]->parameter_count;
        memcpy(layer->tensors, layers[index]->tensors, sizeof layer->tensors);
        layer->tensor_count = layers[index]->tensor_count;
        layer->parameter_count = count;
        layer->parameters = zeros(count);
        for (size_t at = 0; at < count; at++) {
            layer->parameters[at] = (double)layers[index]->master[at];
        }
    }
    return made;
}

void reference_destroy(reference_transformer *reference)
{
    for (int index = 0; index < reference->layer_count; index++) {
        free(reference->layers[index].parameters);
    }
    free(reference->layers);
    free(reference);
}

/// A tensor of a layer; NULL where the layer has no such bias.
static const double *find(const reference_layer *layer, const char *name)
{
    int index = 0;
    while (strcmp(layer->tensors[index].name, name) != 0) {
        index++;
        if (index == layer->tensor_count && strstr(name, "bias") != NULL) return NULL;
        assert(index < layer->tensor_count);
    }
    return layer->parameters + layer->tensors[index].offset;
}

/// y [rows][out] += x [rows][in] w + b
static void linear(const double *x, int rows, int in, const double *w, const double *b, int out,
                   double *y)
{
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < out; column++) {
            double sum = b == NULL ? 0 : b[column];
            for (int k = 0; k < in; k++) {
                sum += x[row * in + k] * w[k * out + column];
            }
            y[row * out + column] += sum;
        }
    }
}

/// The row as LayerNorm sees it, or RMSNorm.
/// @return 1 / deviation
static double normalise(const double *x, int width, bool is_rms, double *normal)
{
    double mean = 0, variance = 0;
    for (int column = 0; column < width; column++) {
        mean += is_rms ? 0 : x[column] / width;
    }
    for (int column = 0; column < width; column++) {
        variance += (x[column] - mean) * (x[column] - mean) / width;
    }
    const double inverse = 1 / sqrt(variance + 1e-5);
    for (int column = 0; column < width; column++) {
        normal[column] = (x[column] - mean) * inverse;
    }
    return inverse;
}

static void norm(const double *x, int rows, int width, const double *weight, const double *bias,
                 double *y)
{
    for (int row = 0; row < rows; row++) {
        double *out = y + row * width;
        normalise(x + row * width, width, bias == NULL, out);
        for (int column = 0; column < width; column++) {
            const double shift = bias == NULL ? 0 : bias[column];
            out[column] = out[column] * weight[column] + shift;
        }
    }
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

/// Attention of one head over one sequence that begins at `first`.
static void attend(const exec_model *model, const double *qkv, int first, int head, double *out)
{
    const int width = exec_model_attention_width(model);
    const int head_width = exec_model_head_width(model);
    const int query = head * head_width, key = width + query, value = 2 * width + query;
    double *probability = zeros((size_t)model->sequence_length);
    for (int row = first; row < first + model->sequence_length; row++) {
        double sum = 0;
        for (int other = first; other <= row; other++) {
            double score = 0;
            for (int k = 0; k < head_width; k++) {
                score += qkv[row * 3 * width + query + k] * qkv[other * 3 * width + key + k];
            }
            probability[other - first] = exp(score / sqrt(head_width));
            sum += probability[other - first];
        }
        for (int other = first; other <= row; other++) {
            for (int k = 0; k < head_width; k++) {
                out[row * width + query + k] +=
                    probability[other - first] / sum * qkv[other * 3 * width + value + k];
            }
        }
    }
    free(probability);
}

/// Heads [head_count + 2 * kv_head_count] of a row as attention takes them, [3 * head_count]:
/// queries and keys of a rotary model are multiplied, as complex numbers (element i, element
/// i + head_width / 2), by exp(i angle).
static void spread(const exec_model *model, int position, const double *compact, double *qkv)
{
    const int heads = model->head_count, width = exec_model_head_width(model);
    const int shared = model->kv_head_count > 0 ? model->kv_head_count : heads;
    for (int head = 0; head < 3 * heads; head++) {
        const int kind = head / heads;
        const int from =
            kind == 0 ? head : heads + (kind - 1) * shared + head % heads * shared / heads;
        for (int element = 0; element < width; element++) {
            const int pair = element % (width / 2);
            const double angle = model->rotary_base == 0 || kind == 2
                                     ? 0
                                     : position / pow(model->rotary_base, 2.0 * pair / width);
            const double real = compact[from * width + pair];
            const double imaginary = compact[from * width + pair + width / 2];
            const double turned = element < width / 2 ? real * cos(angle) - imaginary * sin(angle)
                                                      : real * sin(angle) + imaginary * cos(angle);
            qkv[head * width + element] = angle == 0 ? compact[from * width + element] : turned;
        }
    }
}

/// values [rows][width] in place.
static void block_forward(const exec_model *model, reference_layer *layer, double *values)
{
    const int rows = exec_model_row_count(model), width = model->width;
    const int hidden = exec_model_hidden_width(model);
    const int heads = exec_model_attention_width(model);
    const int shared = model->kv_head_count > 0 ? model->kv_head_count : model->head_count;
    const int compact_width = (model->head_count + 2 * shared) * exec_model_head_width(model);
    double *normed = zeros((size_t)(rows * width)), *qkv = zeros((size_t)(rows * 3 * heads));
    double *compact = zeros((size_t)(rows * compact_width));
    double *attended = zeros((size_t)(rows * heads));
    double *inner = zeros((size_t)(rows * 2 * hidden)), *outer = zeros((size_t)(rows * hidden));
    norm(values, rows, width, find(layer, "norm1 weight"), find(layer, "norm1 bias"), normed);
    linear(normed, rows, width, find(layer, "query-key-value"), find(layer, "query-key-value bias"),
           compact_width, compact);
    for (int row = 0; row < rows; row++) {
        spread(model, row % model->sequence_length, compact + row * compact_width,
               qkv + row * 3 * heads);
    }
    for (int at = 0; at < model->microbatch_size * model->head_count; at++) {
        attend(model, qkv, at / model->head_count * model->sequence_length, at % model->head_count,
               attended);
    }
    linear(attended, rows, heads, find(layer, "attention output"),
           find(layer, "attention output bias"), width, values);
    norm(values, rows, width, find(layer, "norm2 weight"), find(layer, "norm2 bias"), normed);
    linear(normed, rows, width, find(layer, "up"), find(layer, "up bias"),
           model->is_gated ? 2 * hidden : hidden, inner);
    for (int index = 0; index < rows * hidden; index++) {
        const double *gate = inner + index / hidden * 2 * hidden + index % hidden;
        outer[index] =
            model->is_gated ? gate[0] / (1 + exp(-gate[0])) * gate[hidden] : gelu(inner[index]);
    }
    linear(outer, rows, hidden, find(layer, "down"), find(layer, "down bias"), width, values);
    double *all[] = {normed, qkv, compact, attended, inner, outer};
    for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
        free(all[index]);
    }
}

static double head_loss(const exec_model *model, reference_layer *layer, const double *input,
                        const int *target)
{
    const int rows = exec_model_row_count(model), classes = model->vocabulary;
    double *normed = zeros((size_t)(rows * model->width));
    double *logits = zeros((size_t)(rows * classes));
    norm(input, rows, model->width, find(layer, "norm weight"), find(layer, "norm bias"), normed);
    linear(normed, rows, model->width, find(layer, "logits"), NULL, classes, logits);
    double loss = 0;
    for (int row = 0; row < rows; row++) {
        double sum = 0;
        for (int class = 0; class < classes; class ++) {
            sum += exp(logits[row * classes + class]);
        }
        loss += (log(sum) - logits[row * classes + target[row]]) / rows;
    }
    free(normed);
    free(logits);
    return loss;
}

static void embed(reference_transformer *reference, const int *token, double *out)
{
    const exec_model *model = &reference->model;
    const int width = model->width;
    const double *tokens = find(&reference->layers[0], "tokens");
    const bool is_rotary = model->rotary_base > 0;
    const double *positions = is_rotary ? NULL : find(&reference->layers[0], "positions");
    for (int index = 0; index < exec_model_row_count(model) * width; index++) {
        const int row = index / width, column = index % width;
        out[index] = tokens[token[row] * width + column];
        if (is_rotary) continue;
        out[index] += positions[row % model->sequence_length * width + column];
    }
}

double reference_loss(reference_transformer *reference, int first_layer, const int *token,
                      const int *target, const double *hidden)
{
    const exec_model *model = &reference->model;
    const size_t count = (size_t)(exec_model_row_count(model) * model->width);
    double *values = zeros(count);
    if (first_layer == 0) {
        embed(reference, token, values);
    } else {
        memcpy(values, hidden, count * sizeof *values);
    }
    for (int block = 0; block < model->block_count; block++) {
        block_forward(model, &reference->layers[block + 1], values);
    }
    const double loss =
        head_loss(model, &reference->layers[reference->layer_count - 1], values, target);
    free(values);
    return loss;
}
