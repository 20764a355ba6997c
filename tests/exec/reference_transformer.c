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
        layer->gradient = zeros(count);
        layer->moment1 = zeros(count);
        layer->moment2 = zeros(count);
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
        free(reference->layers[index].gradient);
        free(reference->layers[index].moment1);
        free(reference->layers[index].moment2);
    }
    free(reference->layers);
    free(reference);
}

/// A tensor of a layer: its parameters, and where its gradient adds up.
typedef struct tensor {
    const double *value;
    double *gradient;
} tensor;

/// Nothing where the layer has no such bias.
static tensor find(reference_layer *layer, const char *name)
{
    int index = 0;
    while (strcmp(layer->tensors[index].name, name) != 0) {
        index++;
        if (index == layer->tensor_count && strstr(name, "bias") != NULL) return (tensor){0};
        assert(index < layer->tensor_count);
    }
    const size_t offset = layer->tensors[index].offset;
    return (tensor){layer->parameters + offset, layer->gradient + offset};
}

/// y [rows][out] += x [rows][in] w + b
static void linear(const double *x, int rows, int in, tensor w, tensor b, int out, double *y)
{
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < out; column++) {
            double sum = b.value == NULL ? 0 : b.value[column];
            for (int k = 0; k < in; k++) {
                sum += x[row * in + k] * w.value[k * out + column];
            }
            y[row * out + column] += sum;
        }
    }
}

/// Adds to the gradients of w and b; dx [rows][in] is written.
static void linear_gradient(const double *x, int rows, int in, tensor w, tensor b, int out,
                            const double *dy, double *dx)
{
    memset(dx, 0, (size_t)(rows * in) * sizeof *dx);
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < out; column++) {
            const double given = dy[row * out + column];
            if (b.gradient != NULL) b.gradient[column] += given;
            for (int k = 0; k < in; k++) {
                dx[row * in + k] += given * w.value[k * out + column];
                w.gradient[k * out + column] += given * x[row * in + k];
            }
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

static void norm(const double *x, int rows, int width, tensor weight, tensor bias, double *y)
{
    for (int row = 0; row < rows; row++) {
        double *out = y + row * width;
        normalise(x + row * width, width, bias.value == NULL, out);
        for (int column = 0; column < width; column++) {
            const double shift = bias.value == NULL ? 0 : bias.value[column];
            out[column] = out[column] * weight.value[column] + shift;
        }
    }
}

/// dx [rows][width] += what comes back.
static void norm_gradient(const double *x, int rows, int width, tensor weight, tensor bias,
                          const double *dy, double *dx)
{
    double *normal = zeros((size_t)width);
    for (int row = 0; row < rows; row++) {
        const double *given = dy + row * width;
        const double inverse = normalise(x + row * width, width, false, normal);
        double mean = 0, product = 0;
        for (int column = 0; column < width; column++) {
            mean += given[column] * weight.value[column] / width;
            product += given[column] * weight.value[column] * normal[column] / width;
            weight.gradient[column] += given[column] * normal[column];
            bias.gradient[column] += given[column];
        }
        for (int column = 0; column < width; column++) {
            dx[row * width + column] +=
                inverse * (given[column] * weight.value[column] - mean - normal[column] * product);
        }
    }
    free(normal);
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    const double t = tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * x * x);
}

/// Attention of one head over one sequence that begins at `first`. With dout NULL forward: out
/// [rows][width]; else backward: dqkv [rows][3 * width] +=.
static void attend(const exec_model *model, const double *qkv, int first, int head, double *out,
                   const double *dout, double *dqkv)
{
    const int width = exec_model_attention_width(model);
    const int head_width = exec_model_head_width(model);
    const int query = head * head_width, key = width + query, value = 2 * width + query;
    double *probability = zeros((size_t)model->sequence_length);
    double *given = zeros((size_t)model->sequence_length);
    for (int row = first; row < first + model->sequence_length; row++) {
        double sum = 0, product = 0;
        for (int other = first; other <= row; other++) {
            double score = 0;
            for (int k = 0; k < head_width; k++) {
                score += qkv[row * 3 * width + query + k] * qkv[other * 3 * width + key + k];
            }
            probability[other - first] = exp(score / sqrt(head_width));
            sum += probability[other - first];
        }
        for (int other = first; other <= row; other++) {
            probability[other - first] /= sum;
            given[other - first] = 0;
            for (int k = 0; k < head_width; k++) {
                const double v = qkv[other * 3 * width + value + k];
                if (dout == NULL) {
                    out[row * width + query + k] += probability[other - first] * v;
                } else {
                    given[other - first] += dout[row * width + query + k] * v;
                    dqkv[other * 3 * width + value + k] +=
                        probability[other - first] * dout[row * width + query + k];
                }
            }
            product += probability[other - first] * given[other - first];
        }
        for (int other = first; dout != NULL && other <= row; other++) {
            const double score =
                probability[other - first] * (given[other - first] - product) / sqrt(head_width);
            for (int k = 0; k < head_width; k++) {
                dqkv[row * 3 * width + query + k] += score * qkv[other * 3 * width + key + k];
                dqkv[other * 3 * width + key + k] += score * qkv[row * 3 * width + query + k];
            }
        }
    }
    free(probability);
    free(given);
}

static void attention(const exec_model *model, const double *qkv, double *out, const double *dout,
                      double *dqkv)
{
    for (int sequence = 0; sequence < model->microbatch_size; sequence++) {
        for (int head = 0; head < model->head_count; head++) {
            attend(model, qkv, sequence * model->sequence_length, head, out, dout, dqkv);
        }
    }
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

/// What one block computes on its way, [rows][...].
typedef struct passage {
    double *input, *normed1, *qkv, *attended, *middle, *normed2, *hidden, *activated, *output;
} passage;

static passage passage_create(const exec_model *model)
{
    const size_t rows = (size_t)exec_model_row_count(model), width = (size_t)model->width;
    const size_t hidden = (size_t)exec_model_hidden_width(model);
    const size_t heads = (size_t)exec_model_attention_width(model);
    return (passage){zeros(rows * width),      zeros(rows * width),  zeros(rows * 3 * heads),
                     zeros(rows * heads),      zeros(rows * width),  zeros(rows * width),
                     zeros(rows * 2 * hidden), zeros(rows * hidden), zeros(rows * width)};
}

static void passage_destroy(passage *of)
{
    double *all[] = {of->input,   of->normed1, of->qkv,       of->attended, of->middle,
                     of->normed2, of->hidden,  of->activated, of->output};
    for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
        free(all[index]);
    }
}

static void block_forward(const exec_model *model, reference_layer *layer, passage *at)
{
    const int rows = exec_model_row_count(model), width = model->width;
    const int hidden = exec_model_hidden_width(model);
    norm(at->input, rows, width, find(layer, "norm1 weight"), find(layer, "norm1 bias"),
         at->normed1);
    const int heads = exec_model_attention_width(model);
    const int shared = model->kv_head_count > 0 ? model->kv_head_count : model->head_count;
    const int compact_width = (model->head_count + 2 * shared) * exec_model_head_width(model);
    double *compact = zeros((size_t)(rows * compact_width));
    linear(at->normed1, rows, width, find(layer, "query-key-value"),
           find(layer, "query-key-value bias"), compact_width, compact);
    for (int row = 0; row < rows; row++) {
        spread(model, row % model->sequence_length, compact + row * compact_width,
               at->qkv + row * 3 * heads);
    }
    free(compact);
    attention(model, at->qkv, at->attended, NULL, NULL);
    memcpy(at->middle, at->input, (size_t)(rows * width) * sizeof(double));
    linear(at->attended, rows, heads, find(layer, "attention output"),
           find(layer, "attention output bias"), width, at->middle);
    norm(at->middle, rows, width, find(layer, "norm2 weight"), find(layer, "norm2 bias"),
         at->normed2);
    linear(at->normed2, rows, width, find(layer, "up"), find(layer, "up bias"),
           model->is_gated ? 2 * hidden : hidden, at->hidden);
    for (int index = 0; index < rows * hidden; index++) {
        const double *gate = at->hidden + index / hidden * 2 * hidden + index % hidden;
        at->activated[index] = model->is_gated ? gate[0] / (1 + exp(-gate[0])) * gate[hidden]
                                               : gelu(at->hidden[index]);
    }
    memcpy(at->output, at->middle, (size_t)(rows * width) * sizeof(double));
    linear(at->activated, rows, hidden, find(layer, "down"), find(layer, "down bias"), width,
           at->output);
}

/// gradient [rows][width] of the output becomes that of the input.
static void block_backward(const exec_model *model, reference_layer *layer, const passage *at,
                           double *gradient)
{
    const int rows = exec_model_row_count(model), width = model->width;
    const int hidden = exec_model_hidden_width(model);
    double *dhidden = zeros((size_t)(rows * hidden)), *dnormed = zeros((size_t)(rows * width));
    double *dqkv = zeros((size_t)(rows * 3 * width));
    linear_gradient(at->activated, rows, hidden, find(layer, "down"), find(layer, "down bias"),
                    width, gradient, dhidden);
    for (int index = 0; index < rows * hidden; index++) {
        dhidden[index] *= gelu_slope(at->hidden[index]);
    }
    linear_gradient(at->normed2, rows, width, find(layer, "up"), find(layer, "up bias"), hidden,
                    dhidden, dnormed);
    norm_gradient(at->middle, rows, width, find(layer, "norm2 weight"), find(layer, "norm2 bias"),
                  dnormed, gradient);
    linear_gradient(at->attended, rows, width, find(layer, "attention output"),
                    find(layer, "attention output bias"), width, gradient, dnormed);
    attention(model, at->qkv, NULL, dnormed, dqkv);
    linear_gradient(at->normed1, rows, width, find(layer, "query-key-value"),
                    find(layer, "query-key-value bias"), 3 * width, dqkv, dnormed);
    norm_gradient(at->input, rows, width, find(layer, "norm1 weight"), find(layer, "norm1 bias"),
                  dnormed, gradient);
    free(dhidden);
    free(dnormed);
    free(dqkv);
}

/// @param logits_gradient [rows][vocabulary] out
static double head_forward(const exec_model *model, reference_layer *layer, const double *input,
                           const int *target, double *normed, double *logits_gradient)
{
    const int rows = exec_model_row_count(model), classes = model->vocabulary;
    norm(input, rows, model->width, find(layer, "norm weight"), find(layer, "norm bias"), normed);
    linear(normed, rows, model->width, find(layer, "logits"), (tensor){0}, classes,
           logits_gradient);
    double loss = 0;
    for (int row = 0; row < rows; row++) {
        double *of = logits_gradient + row * classes;
        double sum = 0;
        for (int class = 0; class < classes; class ++) {
            sum += exp(of[class]);
        }
        loss += (log(sum) - of[target[row]]) / rows;
        for (int class = 0; class < classes; class ++) {
            of[class] = (exp(of[class]) / sum - (class == target[row] ? 1 : 0)) / rows;
        }
    }
    return loss;
}

static void embed(reference_transformer *reference, const int *token, double *out,
                  const double *gradient)
{
    const exec_model *model = &reference->model;
    const int width = model->width;
    const tensor tokens = find(&reference->layers[0], "tokens");
    const bool is_rotary = model->rotary_base > 0;
    const tensor positions = is_rotary ? (tensor){0} : find(&reference->layers[0], "positions");
    for (int index = 0; index < exec_model_row_count(model) * width; index++) {
        const int row = index / width, column = index % width;
        const int position = row % model->sequence_length * width + column;
        if (gradient == NULL) {
            out[index] = tokens.value[token[row] * width + column] +
                         (is_rotary ? 0 : positions.value[position]);
        } else {
            tokens.gradient[token[row] * width + column] += gradient[index];
            positions.gradient[position] += gradient[index];
        }
    }
}

double reference_loss(reference_transformer *reference, int first_layer, const int *token,
                      const int *target, const double *hidden, double *gradient)
{
    const exec_model *model = &reference->model;
    const int rows = exec_model_row_count(model), width = model->width;
    const size_t count = (size_t)(rows * width);
    reference_layer *head = &reference->layers[reference->layer_count - 1];
    passage *passages = memory_array((size_t)model->block_count, sizeof *passages);
    double *values = zeros(count), *normed = zeros(count);
    double *logits_gradient = zeros((size_t)(rows * model->vocabulary));
    if (first_layer == 0) {
        embed(reference, token, values, NULL);
    } else {
        memcpy(values, hidden, count * sizeof *values);
    }
    for (int block = 0; block < model->block_count; block++) {
        passages[block] = passage_create(model);
        memcpy(passages[block].input, values, count * sizeof *values);
        block_forward(model, &reference->layers[block + 1], &passages[block]);
        memcpy(values, passages[block].output, count * sizeof *values);
    }
    const double loss = head_forward(model, head, values, target, normed, logits_gradient);
    if (gradient != NULL) {
        double *dnormed = zeros(count);
        linear_gradient(normed, rows, width, find(head, "logits"), (tensor){0}, model->vocabulary,
                        logits_gradient, dnormed);
        memset(gradient, 0, count * sizeof *gradient);
        norm_gradient(values, rows, width, find(head, "norm weight"), find(head, "norm bias"),
                      dnormed, gradient);
        free(dnormed);
        for (int block = model->block_count - 1; block >= 0; block--) {
            block_backward(model, &reference->layers[block + 1], &passages[block], gradient);
        }
        if (first_layer == 0) embed(reference, token, NULL, gradient);
    }
    for (int block = 0; block < model->block_count; block++) {
        passage_destroy(&passages[block]);
    }
    free(passages);
    free(values);
    free(normed);
    free(logits_gradient);
    return loss;
}

void reference_clear_gradients(reference_transformer *reference)
{
    for (int index = 0; index < reference->layer_count; index++) {
        reference_layer *layer = &reference->layers[index];
        memset(layer->gradient, 0, layer->parameter_count * sizeof *layer->gradient);
    }
}

static void update_tensor(const reference_transformer *reference, reference_layer *layer,
                          const exec_tensor *updated, double scale)
{
    const exec_model *model = &reference->model;
    const double beta1 = (double)model->beta1, beta2 = (double)model->beta2;
    const double decay = updated->decays ? (double)model->weight_decay : 0;
    const size_t count = (size_t)updated->rows * (size_t)updated->columns;
    for (size_t at = updated->offset; at < updated->offset + count; at++) {
        const double slope = layer->gradient[at] * scale;
        layer->moment1[at] = beta1 * layer->moment1[at] + (1 - beta1) * slope;
        layer->moment2[at] = beta2 * layer->moment2[at] + (1 - beta2) * slope * slope;
        const double mean = layer->moment1[at] / (1 - pow(beta1, reference->step));
        const double square = layer->moment2[at] / (1 - pow(beta2, reference->step));
        layer->parameters[at] -=
            (double)model->learning_rate *
            (mean / (sqrt(square) + (double)model->epsilon) + decay * layer->parameters[at]);
    }
}

double reference_step(reference_transformer *reference, int microbatch_count)
{
    double square = 0;
    for (int index = 0; index < reference->layer_count; index++) {
        const reference_layer *layer = &reference->layers[index];
        for (size_t at = 0; at < layer->parameter_count; at++) {
            square += layer->gradient[at] * layer->gradient[at];
        }
    }
    const double norm_of_mean = sqrt(square) / microbatch_count;
    const double clip = (double)reference->model.clip_norm;
    const double clipped = clip > 0 && norm_of_mean > clip ? clip / norm_of_mean : 1;
    reference->step++;
    for (int index = 0; index < reference->layer_count; index++) {
        reference_layer *layer = &reference->layers[index];
        for (int kind = 0; kind < layer->tensor_count; kind++) {
            update_tensor(reference, layer, &layer->tensors[kind], clipped / microbatch_count);
        }
    }
    return norm_of_mean;
}
