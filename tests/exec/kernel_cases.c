#include "tests/exec/kernel_cases.h"

#include "base/arena.h"
#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/// An array on the device, and what its values are exactly.
typedef struct operand {
    exec_kernels *kernels;
    void *device;
    double *exact; // [count]
    size_t count;
    bool is_float; // fp32 whatever the values are
} operand;

static void *allocate(exec_kernels *kernels, size_t bytes)
{
    void *memory = kernels->table->allocate(kernels, bytes);
    assert(memory != NULL);
    return memory;
}

/// Reads what is on the device now: bf16 is the upper half of fp32.
static void read_back(const operand *of, float *to)
{
    const exec_kernel_table *table = of->kernels->table;
    const size_t number_bytes = of->is_float ? sizeof *to : (size_t)table->value_bytes;
    char *read = memory_array(of->count, sizeof *to);
    table->to_host(of->kernels, read, of->device, of->count * number_bytes);
    memset(to, 0, of->count * sizeof *to);
    for (size_t index = 0; index < of->count; index++) {
        memcpy((char *)&to[index] + sizeof *to - number_bytes, read + index * number_bytes,
               number_bytes);
    }
    free(read);
}

/// Uniform numbers in [-1, 1), rounded to what the backend holds.
static operand make(exec_kernels *kernels, size_t count, bool is_float, uint64_t purpose)
{
    const exec_kernel_table *table = kernels->table;
    operand made = {kernels, NULL, memory_array(count + 1, sizeof(double)), count, is_float};
    float *host = memory_array(count + 1, sizeof *host);
    rng generator = rng_init(7, purpose);
    for (size_t index = 0; index < count; index++) {
        host[index] = (float)(2 * rng_unit(&generator) - 1);
    }
    void *floats = allocate(kernels, count * sizeof *host);
    table->to_device(kernels, floats, host, count * sizeof *host);
    made.device = floats;
    if (!is_float) {
        made.device = allocate(kernels, count * (size_t)table->value_bytes);
        table->to_values(kernels, floats, made.device, count);
        table->finish(kernels, NULL);
        table->release(kernels, floats);
    }
    read_back(&made, host);
    for (size_t index = 0; index < count; index++) {
        made.exact[index] = (double)host[index];
    }
    free(host);
    return made;
}

static operand values(exec_kernels *kernels, size_t count, uint64_t purpose)
{
    return make(kernels, count, false, purpose);
}

static operand floats(exec_kernels *kernels, size_t count, uint64_t purpose)
{
    return make(kernels, count, true, purpose);
}

static void drop(operand *dropped)
{
    dropped->kernels->table->release(dropped->kernels, dropped->device);
    free(dropped->exact);
}

static int *indices(exec_kernels *kernels, const int *host, int count)
{
    int *device = allocate(kernels, (size_t)count * sizeof *device);
    kernels->table->to_device(kernels, device, host, (size_t)count * sizeof *host);
    return device;
}

/// Compares the device with what exact now says; *worst grows.
static void compare(const operand *of, double *worst)
{
    float *host = memory_array(of->count + 1, sizeof *host);
    read_back(of, host);
    for (size_t index = 0; index < of->count; index++) {
        const double error =
            fabs((double)host[index] - of->exact[index]) / (1 + fabs(of->exact[index]));
        if (!(error <= *worst)) *worst = isnan(error) ? 1e30 : error;
    }
    free(host);
}

/// Compares all of them, inputs too, which nothing may have changed.
static void compare_and_drop(operand **all, size_t count, double *worst)
{
    for (size_t index = 0; index < count; index++) {
        compare(all[index], worst);
        drop(all[index]);
    }
}

static double finish(exec_kernels *kernels, double worst)
{
    return kernels->table->finish(kernels, NULL) == STATUS_OK ? worst : 1e30;
}

static void matmul_once(exec_kernels *kernels, const exec_matmul *shape, double *worst)
{
    const int rows = shape->rows, columns = shape->columns, inner = shape->inner;
    operand a = values(kernels, (size_t)(rows * inner), 1);
    operand b = values(kernels, (size_t)(inner * columns), 2);
    operand c = make(kernels, (size_t)(rows * columns), shape->is_float, 3);
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < columns; column++) {
            double sum = shape->accumulates ? c.exact[row * columns + column] : 0;
            for (int k = 0; k < inner; k++) {
                sum += a.exact[shape->transposes_a ? k * rows + row : row * inner + k] *
                       b.exact[shape->transposes_b ? column * inner + k : k * columns + column];
            }
            c.exact[row * columns + column] = sum;
        }
    }
    kernels->table->matmul(kernels, shape, a.device, b.device, c.device);
    compare_and_drop((operand *[]){&a, &b, &c}, 3, worst);
}

static double matmul_error(exec_kernels *kernels)
{
    static const int sizes[][3] = {{1, 1, 1},    {1, 17, 3},   {5, 16, 7},    {6, 33, 64},
                                   {13, 5, 300}, {37, 29, 41}, {64, 48, 520}, {3, 2, 0}};
    double worst = 0;
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        for (int kind = 0; kind < 16; kind++) {
            const exec_matmul shape = {.rows = sizes[size][0],
                                       .columns = sizes[size][1],
                                       .inner = sizes[size][2],
                                       .transposes_a = (kind & 1) != 0,
                                       .transposes_b = (kind & 2) != 0,
                                       .accumulates = (kind & 4) != 0,
                                       .is_float = (kind & 8) != 0};
            matmul_once(kernels, &shape, &worst);
        }
    }
    return finish(kernels, worst);
}

/// Each group is a product of its own; the second has no rows.
static double groups_error(exec_kernels *kernels)
{
    enum { GROUPS = 3, ROWS = 11, IN = 5, OUT = 7 };
    static const int first[GROUPS + 1] = {0, 4, 4, 11};
    operand x = values(kernels, ROWS * IN, 1), w = values(kernels, GROUPS * IN * OUT, 2);
    operand y = values(kernels, ROWS * OUT, 4);
    operand slope = values(kernels, ROWS * OUT, 5), dx = values(kernels, ROWS * IN, 6);
    operand dw = floats(kernels, GROUPS * IN * OUT, 7);
    memset(y.exact, 0, y.count * sizeof *y.exact);
    memset(dx.exact, 0, dx.count * sizeof *dx.exact);
    for (int group = 0; group < GROUPS; group++) {
        for (int row = first[group]; row < first[group + 1]; row++) {
            for (int at = 0; at < IN * OUT; at++) {
                const int in = at / OUT, out = at % OUT, own = group * IN * OUT + at;
                y.exact[row * OUT + out] += x.exact[row * IN + in] * w.exact[own];
                dx.exact[row * IN + in] += slope.exact[row * OUT + out] * w.exact[own];
                dw.exact[own] += x.exact[row * IN + in] * slope.exact[row * OUT + out];
            }
        }
    }
    const exec_kernel_table *table = kernels->table;
    int *device_first = indices(kernels, first, GROUPS + 1);
    const exec_groups groups = {.count = GROUPS, .row_count = ROWS, .first = device_first};
    const exec_matmul forward = {.columns = OUT, .inner = IN};
    const exec_matmul backward = {.columns = IN, .inner = OUT, .transposes_b = true};
    const exec_matmul weight = {
        .rows = IN, .columns = OUT, .transposes_a = true, .accumulates = true, .is_float = true};
    table->group_matmul(kernels, &forward, &groups, x.device, w.device, y.device);
    table->group_matmul(kernels, &backward, &groups, slope.device, w.device, dx.device);
    table->group_matmul(kernels, &weight, &groups, x.device, slope.device, dw.device);
    operand *all[] = {&y, &dx, &dw, &x, &w, &slope};
    double worst = 0;
    for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
        compare(all[index], &worst);
        drop(all[index]);
    }
    table->release(kernels, device_first);
    return finish(kernels, worst);
}

static double sums_error(exec_kernels *kernels)
{
    enum { ROWS = 11, COLUMNS = 37, COUNT = ROWS * COLUMNS };
    operand to = values(kernels, COUNT, 1), from = values(kernels, COUNT, 2);
    operand to_float = floats(kernels, COUNT, 3), from_float = floats(kernels, COUNT, 4);
    operand bias = values(kernels, COLUMNS, 5), sum = floats(kernels, COLUMNS, 6);
    double worst = 0;
    for (int index = 0; index < COUNT; index++) {
        sum.exact[index % COLUMNS] += from.exact[index];
        to.exact[index] += from.exact[index] + bias.exact[index % COLUMNS];
        to_float.exact[index] += from_float.exact[index];
    }
    kernels->table->add(kernels, to.device, from.device, COUNT);
    kernels->table->add_bias(kernels, to.device, bias.device, ROWS, COLUMNS);
    kernels->table->add_floats(kernels, to_float.device, from_float.device, COUNT);
    kernels->table->column_sums(kernels, from.device, ROWS, COLUMNS, sum.device);
    operand *all[] = {&to, &from, &to_float, &from_float, &bias, &sum};
    compare_and_drop(all, sizeof all / sizeof *all, &worst);
    return finish(kernels, worst);
}

/// y = n * weight + bias with n = (x - mean) / deviation.
/// With is_rms mean and bias are 0 and nobody asks for them.
static void layer_norm_once(exec_kernels *kernels, int rows, int width, bool is_rms, double *worst)
{
    const size_t count = (size_t)(rows * width);
    operand x = values(kernels, count, 1), weight = values(kernels, (size_t)width, 2);
    operand bias = values(kernels, (size_t)width, 3), y = values(kernels, count, 4);
    operand mean = floats(kernels, (size_t)rows, 5), rstd = floats(kernels, (size_t)rows, 6);
    operand dy = values(kernels, count, 7), dx = values(kernels, count, 8);
    operand dweight = floats(kernels, (size_t)width, 9), dbias = floats(kernels, (size_t)width, 10);
    for (int row = 0; row < rows; row++) {
        const double *from = x.exact + row * width, *given = dy.exact + row * width;
        double sum = 0, square = 0, given_mean = 0, product_mean = 0;
        for (int column = 0; column < width; column++) {
            sum += is_rms ? 0 : from[column] / width;
        }
        for (int column = 0; column < width; column++) {
            square += (from[column] - sum) * (from[column] - sum) / width;
        }
        if (!is_rms) mean.exact[row] = sum;
        rstd.exact[row] = 1 / sqrt(square + 1e-5);
        for (int column = 0; column < width; column++) {
            const double normal = (from[column] - sum) * rstd.exact[row];
            y.exact[row * width + column] =
                normal * weight.exact[column] + (is_rms ? 0 : bias.exact[column]);
            given_mean += is_rms ? 0 : given[column] * weight.exact[column] / width;
            product_mean += given[column] * weight.exact[column] * normal / width;
            dweight.exact[column] += given[column] * normal;
            if (!is_rms) dbias.exact[column] += given[column];
        }
        for (int column = 0; column < width; column++) {
            const double normal = (from[column] - sum) * rstd.exact[row];
            dx.exact[row * width + column] +=
                rstd.exact[row] *
                (given[column] * weight.exact[column] - given_mean - normal * product_mean);
        }
    }
    const exec_kernel_table *table = kernels->table;
    float *means = is_rms ? NULL : mean.device;
    table->layer_norm(kernels, x.device, weight.device, is_rms ? NULL : bias.device, rows, width,
                      y.device, means, rstd.device);
    table->layer_norm_input(kernels, dy.device, x.device, weight.device, means, rstd.device, rows,
                            width, dx.device);
    table->layer_norm_weight(kernels, dy.device, x.device, means, rstd.device, rows, width,
                             dweight.device, is_rms ? NULL : dbias.device);
    operand *results[] = {&y, &mean, &rstd, &dx, &dweight, &dbias, &x, &weight, &bias, &dy};
    compare_and_drop(results, sizeof results / sizeof *results, worst);
}

static double layer_norm_error(exec_kernels *kernels)
{
    double worst = 0;
    for (int is_rms = 0; is_rms < 2; is_rms++) {
        layer_norm_once(kernels, 1, 16, is_rms != 0, &worst);
        layer_norm_once(kernels, 9, 37, is_rms != 0, &worst);
        layer_norm_once(kernels, 70, 64, is_rms != 0, &worst);
    }
    return finish(kernels, worst);
}

static double gelu_of(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static double gelu_error(exec_kernels *kernels)
{
    enum { COUNT = 1003 };
    operand x = values(kernels, COUNT, 1), y = values(kernels, COUNT, 2);
    operand gradient = values(kernels, COUNT, 3);
    double worst = 0;
    // x * 8, by adding it to itself three times: the tails of the curve.
    for (int doubling = 0; doubling < 3; doubling++) {
        kernels->table->copy(kernels, y.device, x.device,
                             COUNT * (size_t)kernels->table->value_bytes);
        kernels->table->add(kernels, x.device, y.device, COUNT);
    }
    const double step = 1e-5;
    for (int index = 0; index < COUNT; index++) {
        x.exact[index] *= 8;
        y.exact[index] = gelu_of(x.exact[index]);
        gradient.exact[index] *=
            (gelu_of(x.exact[index] + step) - gelu_of(x.exact[index] - step)) / (2 * step);
    }
    kernels->table->gelu(kernels, x.device, y.device, COUNT);
    kernels->table->gelu_input(kernels, x.device, gradient.device, COUNT);
    compare(&y, &worst);
    compare(&gradient, &worst);
    kernels->table->gelu(kernels, x.device, x.device, COUNT); // in place
    memcpy(x.exact, y.exact, COUNT * sizeof *x.exact);
    compare_and_drop((operand *[]){&x, &y, &gradient}, 3, &worst);
    return finish(kernels, worst);
}

static double silu_of(double x)
{
    return x / (1 + exp(-x));
}

static double swiglu_error(exec_kernels *kernels)
{
    enum { ROWS = 7, WIDTH = 37 };
    operand input = values(kernels, 2 * ROWS * WIDTH, 1), output = values(kernels, ROWS * WIDTH, 2);
    operand given = values(kernels, ROWS * WIDTH, 3);
    operand gradient = values(kernels, 2 * ROWS * WIDTH, 4);
    const double step = 1e-5;
    double worst = 0;
    for (int index = 0; index < ROWS * WIDTH; index++) {
        const int gate = index / WIDTH * 2 * WIDTH + index % WIDTH;
        const double x = input.exact[gate];
        const double slope = (silu_of(x + step) - silu_of(x - step)) / (2 * step);
        output.exact[index] = silu_of(x) * input.exact[gate + WIDTH];
        gradient.exact[gate] = given.exact[index] * input.exact[gate + WIDTH] * slope;
        gradient.exact[gate + WIDTH] = given.exact[index] * silu_of(x);
    }
    kernels->table->swiglu(kernels, input.device, ROWS, WIDTH, output.device);
    kernels->table->swiglu_input(kernels, input.device, given.device, ROWS, WIDTH, gradient.device);
    operand *all[] = {&output, &gradient, &input, &given};
    compare_and_drop(all, sizeof all / sizeof *all, &worst);
    return finish(kernels, worst);
}

/// 6 heads of 10 that share 2 keys and values; rows of positions 0, 3, 6, ... of 5. The pair of
/// elements (i, i + 5) of a query or key is a complex number times exp(i angle).
static double spread_heads_error(exec_kernels *kernels)
{
    enum { ROWS = 9, HEADS = 6, SHARED = 2, WIDTH = 10, LENGTH = 5, HALF = WIDTH / 2 };
    enum { FROM = HEADS + 2 * SHARED, TO = 3 * HEADS };
    operand compact = values(kernels, ROWS * FROM * WIDTH, 1);
    operand spread = values(kernels, ROWS * TO * WIDTH, 2);
    operand given = values(kernels, ROWS * TO * WIDTH, 3);
    operand gradient = values(kernels, ROWS * FROM * WIDTH, 4);
    operand rotation = floats(kernels, LENGTH * WIDTH, 5); // of any length: no angle is needed
    int row_of[ROWS];
    double worst = 0;
    memset(gradient.exact, 0, gradient.count * sizeof *gradient.exact);
    for (int row = 0; row < ROWS; row++) {
        row_of[row] = 3 * row;
        const double *turn = rotation.exact + row_of[row] % LENGTH * WIDTH;
        for (int at = 0; at < TO * HALF; at++) {
            const int head = at / HALF, pair = at % HALF, kind = head / HEADS;
            const int from =
                kind == 0 ? head : HEADS + (kind - 1) * SHARED + head % HEADS / (HEADS / SHARED);
            const double cosine = kind == 2 ? 1 : turn[2 * pair];
            const double sine = kind == 2 ? 0 : turn[2 * pair + 1];
            const int source = (row * FROM + from) * WIDTH + pair;
            const int target = (row * TO + head) * WIDTH + pair;
            const double *x = compact.exact + source, *dy = given.exact + target;
            spread.exact[target] = x[0] * cosine - x[HALF] * sine;
            spread.exact[target + HALF] = x[0] * sine + x[HALF] * cosine;
            gradient.exact[source] += dy[0] * cosine + dy[HALF] * sine;
            gradient.exact[source + HALF] += dy[HALF] * cosine - dy[0] * sine;
        }
    }
    int *row = indices(kernels, row_of, ROWS);
    const exec_heads heads = {HEADS, SHARED, WIDTH, LENGTH, row, rotation.device};
    kernels->table->spread_heads(kernels, &heads, compact.device, ROWS, spread.device);
    kernels->table->spread_heads_input(kernels, &heads, given.device, ROWS, gradient.device);
    operand *all[] = {&spread, &gradient, &compact, &given, &rotation};
    compare_and_drop(all, sizeof all / sizeof *all, &worst);
    kernels->table->release(kernels, row);
    return finish(kernels, worst);
}

/// Whether the query block of row lists the block of key; both rows of a sequence that begins at
/// row `first` with block number `block`.
static bool attends(const exec_attention *shape, int first, int block, int row, int key)
{
    if (key > row || (shape->first_key != NULL && key < shape->first_key[row])) return false;
    if (shape->first_entry == NULL) return true;
    const int query_block = block + (row - first) / shape->block_rows;
    const int key_block = block + (key - first) / shape->block_rows;
    for (int entry = shape->first_entry[query_block]; entry < shape->first_entry[query_block + 1];
         entry++) {
        if (shape->key_block[entry] == key_block) return true;
    }
    return false;
}

/// Arrays of one attention; exact ones are filled row by row.
typedef struct attention_arrays {
    operand qkv, output, log_sum, output_gradient, qkv_gradient;
} attention_arrays;

static double scaled_score(const exec_attention *shape, const attention_arrays *of, int head,
                           int row, int key)
{
    const int width = shape->head_count * shape->head_width;
    double score = 0;
    for (int k = 0; k < shape->head_width; k++) {
        const int column = head * shape->head_width + k;
        score += of->qkv.exact[row * 3 * width + column] *
                 of->qkv.exact[key * 3 * width + width + column];
    }
    return score / sqrt(shape->head_width);
}

/// One query row of one head: its output, and what it adds to gradients.
static void attend(const exec_attention *shape, attention_arrays *of, int head, int first,
                   int block, int row)
{
    const int width = shape->head_count * shape->head_width;
    const double *qkv = of->qkv.exact;
    double *gradient = of->qkv_gradient.exact;
    double sum = 0, product = 0;
    for (int key = first; key <= row; key++) {
        if (attends(shape, first, block, row, key))
            sum += exp(scaled_score(shape, of, head, row, key));
    }
    of->log_sum.exact[row * shape->head_count + head] = log(sum);
    for (int k = 0; k < shape->head_width; k++) {
        const int column = head * shape->head_width + k;
        double output = 0;
        for (int key = first; key <= row; key++) {
            if (!attends(shape, first, block, row, key)) continue;
            output += exp(scaled_score(shape, of, head, row, key)) / sum *
                      qkv[key * 3 * width + 2 * width + column];
        }
        of->output.exact[row * width + column] = output;
        product += output * of->output_gradient.exact[row * width + column];
    }
    for (int key = first; key <= row; key++) {
        if (!attends(shape, first, block, row, key)) continue;
        const double probability = exp(scaled_score(shape, of, head, row, key)) / sum;
        double given = 0;
        for (int k = 0; k < shape->head_width; k++) {
            const int column = head * shape->head_width + k;
            const double out = of->output_gradient.exact[row * width + column];
            given += out * qkv[key * 3 * width + 2 * width + column];
            gradient[key * 3 * width + 2 * width + column] += probability * out;
        }
        const double score = probability * (given - product) / sqrt(shape->head_width);
        for (int k = 0; k < shape->head_width; k++) {
            const int column = head * shape->head_width + k;
            gradient[row * 3 * width + column] += score * qkv[key * 3 * width + width + column];
            gradient[key * 3 * width + width + column] += score * qkv[row * 3 * width + column];
        }
    }
}

/// @param shape its first_key is host memory
static void attention_once(exec_kernels *kernels, const exec_attention *shape, double *worst)
{
    const size_t rows = (size_t)shape->first_row[shape->sequence_count];
    const size_t width = (size_t)(shape->head_count * shape->head_width);
    attention_arrays of = {.qkv = values(kernels, rows * 3 * width, 1),
                           .output = values(kernels, rows * width, 2),
                           .log_sum = floats(kernels, rows * (size_t)shape->head_count, 3),
                           .output_gradient = values(kernels, rows * width, 4),
                           .qkv_gradient = values(kernels, rows * 3 * width, 5)};
    memset(of.qkv_gradient.exact, 0, rows * 3 * width * sizeof(double));
    int block = 0;
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int first = shape->first_row[sequence], end = shape->first_row[sequence + 1];
        for (int row = first; row < end; row++) {
            for (int head = 0; head < shape->head_count; head++) {
                attend(shape, &of, head, first, block, row);
            }
        }
        block += (end - first + shape->block_rows - 1) / shape->block_rows;
    }
    assert(block == shape->block_count);
    exec_attention asked = *shape;
    int *first_key =
        shape->first_key == NULL ? NULL : indices(kernels, shape->first_key, (int)rows);
    asked.first_key = first_key;
    kernels->table->attention(kernels, &asked, of.qkv.device, of.output.device, of.log_sum.device);
    kernels->table->attention_input(kernels, &asked, of.qkv.device, of.output.device,
                                    of.log_sum.device, of.output_gradient.device,
                                    of.qkv_gradient.device);
    kernels->table->release(kernels, first_key);
    operand *all[] = {&of.output, &of.log_sum, &of.qkv_gradient, &of.qkv, &of.output_gradient};
    compare_and_drop(all, sizeof all / sizeof *all, worst);
}

static double dense_attention_error(exec_kernels *kernels)
{
    static const int first_row[] = {0, 1, 38, 38, 102, 171}; // 1, 37, 0, 64, 69 rows
    static const struct {
        int head_count, head_width, block_rows, block_count;
    } shapes[] = {{3, 8, 16, 1 + 3 + 0 + 4 + 5},
                  {2, 16, 32, 1 + 2 + 0 + 2 + 3},
                  {1, 64, 64, 1 + 1 + 0 + 1 + 2}};
    double worst = 0;
    for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
        const exec_attention attention = {.head_count = shapes[shape].head_count,
                                          .head_width = shapes[shape].head_width,
                                          .sequence_count = 5,
                                          .first_row = first_row,
                                          .block_rows = shapes[shape].block_rows,
                                          .block_count = shapes[shape].block_count};
        attention_once(kernels, &attention, &worst);
    }
    return finish(kernels, worst);
}

static double sparse_attention_error(exec_kernels *kernels)
{
    // Two sequences of 70 and 40 rows: blocks 0 to 4 and 5 to 7.
    static const int first_row[] = {0, 70, 110};
    static const int first_entry[] = {0, 1, 2, 4, 6, 9, 10, 12, 13};
    static const int key_block[] = {0, 1, 0, 2, 2, 3, 0, 3, 4, 5, 5, 6, 7};
    double worst = 0;
    attention_once(kernels,
                   &(exec_attention){.head_count = 2,
                                     .head_width = 16,
                                     .sequence_count = 2,
                                     .first_row = first_row,
                                     .block_rows = 16,
                                     .block_count = 8,
                                     .first_entry = first_entry,
                                     .key_block = key_block},
                   &worst);
    return finish(kernels, worst);
}

static double sorted_attention_error(exec_kernels *kernels)
{
    // Sequences of 150 and 40 rows: blocks 0 to 2 and 3. A block meets those that hold its buckets:
    // later ones too, and ones of which some of its rows attend to nothing.
    enum { ROWS = 190, BUCKETS = 6 };
    static const int bucket_begin[BUCKETS + 1] = {0, 30, 74, 140, 150, 160, ROWS};
    static const int first_row[] = {0, 150, ROWS};
    static const int first_entry[] = {0, 2, 5, 7, 8};
    static const int key_block[] = {0, 1, 0, 1, 2, 1, 2, 3};
    static const int head_widths[] = {16, 32, 64};
    int first_key[ROWS];
    double worst = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        for (int row = bucket_begin[bucket]; row < bucket_begin[bucket + 1]; row++) {
            first_key[row] = bucket_begin[bucket];
        }
    }
    for (int width = 0; width < 3; width++) {
        attention_once(kernels,
                       &(exec_attention){.head_count = 2,
                                         .head_width = head_widths[width],
                                         .sequence_count = 2,
                                         .first_row = first_row,
                                         .block_rows = 64,
                                         .block_count = 4,
                                         .first_entry = first_entry,
                                         .key_block = key_block,
                                         .first_key = first_key},
                       &worst);
    }
    return finish(kernels, worst);
}

static double embed_error(exec_kernels *kernels)
{
    enum { ROWS = 23, WIDTH = 19, TOKENS = 7, POSITIONS = 5 };
    int token[ROWS], position[ROWS];
    operand tokens = values(kernels, TOKENS * WIDTH, 1);
    operand positions = values(kernels, POSITIONS * WIDTH, 2),
            out = values(kernels, ROWS * WIDTH, 3);
    operand given = values(kernels, ROWS * WIDTH, 4), dtoken = floats(kernels, TOKENS * WIDTH, 5);
    operand dposition = floats(kernels, POSITIONS * WIDTH, 6);
    double worst = 0;
    for (int row = 0; row < ROWS; row++) {
        token[row] = row * row % TOKENS;
        position[row] = row % POSITIONS;
        for (int column = 0; column < WIDTH; column++) {
            out.exact[row * WIDTH + column] = tokens.exact[token[row] * WIDTH + column] +
                                              positions.exact[position[row] * WIDTH + column];
            dtoken.exact[token[row] * WIDTH + column] += given.exact[row * WIDTH + column];
            dposition.exact[position[row] * WIDTH + column] += given.exact[row * WIDTH + column];
        }
    }
    int *device_token = indices(kernels, token, ROWS);
    int *device_position = indices(kernels, position, ROWS);
    kernels->table->embed(kernels, device_token, device_position, tokens.device, positions.device,
                          ROWS, WIDTH, out.device);
    kernels->table->embed_weight(kernels, given.device, device_token, device_position, ROWS, WIDTH,
                                 TOKENS, POSITIONS, dtoken.device, dposition.device);
    operand *all[] = {&out, &dtoken, &dposition, &tokens, &positions, &given};
    compare_and_drop(all, sizeof all / sizeof *all, &worst);
    kernels->table->release(kernels, device_token);
    kernels->table->release(kernels, device_position);
    return finish(kernels, worst);
}

static double cross_entropy_error(exec_kernels *kernels)
{
    enum { ROWS = 13, CLASSES = 41 };
    const double scale = 0.25;
    int target[ROWS];
    operand logits = values(kernels, ROWS * CLASSES, 1), loss = floats(kernels, ROWS, 2);
    operand gradient = values(kernels, ROWS * CLASSES, 3), sure = floats(kernels, 2 * ROWS, 4);
    double worst = 0;
    for (int row = 0; row < ROWS; row++) {
        target[row] = row * 5 % CLASSES;
        const double *of = logits.exact + row * CLASSES;
        double sum = 0, largest = -INFINITY, second = -INFINITY;
        for (int class = 0; class < CLASSES; class ++) {
            sum += exp(of[class]);
            second = fmax(second, fmin(largest, of[class]));
            largest = fmax(largest, of[class]);
        }
        sure.exact[2 * row] = (exp(largest) - exp(second)) / sum;
        sure.exact[2 * row + 1] = exp(largest) / sum;
        loss.exact[row] = log(sum) - of[target[row]];
        for (int class = 0; class < CLASSES; class ++) {
            gradient.exact[row * CLASSES + class] =
                scale * (exp(of[class]) / sum - (class == target[row] ? 1 : 0));
        }
    }
    int *device_target = indices(kernels, target, ROWS);
    kernels->table->cross_entropy(kernels, logits.device, device_target, ROWS, CLASSES,
                                  (float)scale, loss.device, sure.device, gradient.device);
    compare(&logits, &worst);
    compare(&loss, &worst);
    compare(&sure, &worst);
    compare(&gradient, &worst);
    kernels->table->cross_entropy(kernels, logits.device, device_target, ROWS, CLASSES,
                                  (float)scale, loss.device, NULL, logits.device); // in place
    memcpy(logits.exact, gradient.exact, ROWS * CLASSES * sizeof *logits.exact);
    kernels->table->release(kernels, device_target);
    compare_and_drop((operand *[]){&logits, &loss, &sure, &gradient}, 4, &worst);
    return finish(kernels, worst);
}

enum { FROM_ROWS = 9, CHOSEN = 5, ROW_WIDTH = 21 };

static double moved_rows_error(exec_kernels *kernels)
{
    static const int row[CHOSEN] = {0, 2, 3, 7, 8};
    operand from = values(kernels, FROM_ROWS * ROW_WIDTH, 1);
    operand gathered = values(kernels, CHOSEN * ROW_WIDTH, 2);
    operand scattered = values(kernels, FROM_ROWS * ROW_WIDTH, 3);
    operand scale = floats(kernels, CHOSEN, 4), scaled = values(kernels, CHOSEN * ROW_WIDTH, 5);
    operand dots = floats(kernels, CHOSEN, 6), crossed = floats(kernels, CHOSEN, 7);
    double worst = 0;
    for (int r = 0; r < CHOSEN; r++) {
        dots.exact[r] = 0;
        crossed.exact[r] = 0;
        for (int column = 0; column < ROW_WIDTH; column++) {
            const double value = from.exact[row[r] * ROW_WIDTH + column];
            gathered.exact[r * ROW_WIDTH + column] = value;
            scattered.exact[row[r] * ROW_WIDTH + column] = value;
            scaled.exact[r * ROW_WIDTH + column] = scale.exact[r] * value;
            dots.exact[r] += value * value;
            crossed.exact[r] += from.exact[r * ROW_WIDTH + column] * value;
        }
    }
    int *device_row = indices(kernels, row, CHOSEN);
    const exec_kernel_table *table = kernels->table;
    table->gather_rows(kernels, from.device, device_row, CHOSEN, ROW_WIDTH, gathered.device);
    table->scatter_rows(kernels, gathered.device, device_row, CHOSEN, ROW_WIDTH, scattered.device);
    table->scale_rows(kernels, gathered.device, scale.device, CHOSEN, ROW_WIDTH, scaled.device);
    table->row_dots(kernels, gathered.device, NULL, from.device, device_row, CHOSEN, ROW_WIDTH,
                    dots.device);
    table->row_dots(kernels, from.device, NULL, from.device, device_row, CHOSEN, ROW_WIDTH,
                    crossed.device);
    operand *all[] = {&from, &gathered, &scattered, &scale, &scaled, &dots, &crossed};
    compare_and_drop(all, sizeof all / sizeof *all, &worst);
    table->release(kernels, device_row);
    return finish(kernels, worst);
}

static double combined_rows_error(exec_kernels *kernels)
{
    static const int first[CHOSEN + 1] = {0, 2, 2, 5, 6, 8};
    static const int source[8] = {8, 1, 0, 0, 3, 5, 2, 7};
    operand from = values(kernels, FROM_ROWS * ROW_WIDTH, 1), weight = floats(kernels, 8, 2);
    operand weighted = values(kernels, CHOSEN * ROW_WIDTH, 3);
    operand plain = values(kernels, CHOSEN * ROW_WIDTH, 4);
    operand less = values(kernels, CHOSEN * ROW_WIDTH, 5);
    double worst = 0;
    for (int at = 0; at < CHOSEN * ROW_WIDTH; at++) {
        less.exact[at] -= weight.exact[at / ROW_WIDTH] * from.exact[at];
    }
    for (int r = 0; r < CHOSEN; r++) {
        for (int entry = first[r]; entry < first[r + 1]; entry++) {
            for (int column = 0; column < ROW_WIDTH; column++) {
                const double value = from.exact[source[entry] * ROW_WIDTH + column];
                weighted.exact[r * ROW_WIDTH + column] += weight.exact[entry] * value;
                plain.exact[r * ROW_WIDTH + column] += value;
            }
        }
    }
    int *device_first = indices(kernels, first, CHOSEN + 1);
    int *device_source = indices(kernels, source, 8);
    const exec_kernel_table *table = kernels->table;
    table->combine_rows(kernels, from.device, device_first, device_source, weight.device, 1, CHOSEN,
                        ROW_WIDTH, weighted.device);
    table->combine_rows(kernels, from.device, device_first, device_source, NULL, 1, CHOSEN,
                        ROW_WIDTH, plain.device);
    table->combine_rows(kernels, from.device, NULL, NULL, weight.device, -1, CHOSEN, ROW_WIDTH,
                        less.device);
    operand *all[] = {&from, &weight, &weighted, &plain, &less};
    compare_and_drop(all, sizeof all / sizeof *all, &worst);
    table->release(kernels, device_first);
    table->release(kernels, device_source);
    return finish(kernels, worst);
}

static double sum_of_squares_error(exec_kernels *kernels)
{
    static const size_t counts[] = {0, 1, 7, 8, 1001};
    double worst = 0;
    for (size_t index = 0; index < sizeof counts / sizeof *counts; index++) {
        operand of = floats(kernels, counts[index], 1);
        double sum = 0;
        for (size_t at = 0; at < of.count; at++) {
            sum += of.exact[at] * of.exact[at];
        }
        const double computed = kernels->table->sum_of_squares(kernels, of.device, of.count);
        worst = fmax(worst, fabs(computed - sum) / (1 + sum));
        drop(&of);
    }
    return finish(kernels, worst);
}

static double adamw_error(exec_kernels *kernels)
{
    enum { COUNT = 77, STEPS = 3 };
    const exec_adamw base = {.learning_rate = 0.01F,
                             .beta1 = 0.9F,
                             .beta2 = 0.95F,
                             .epsilon = 1e-6F,
                             .weight_decay = 0.1F,
                             .gradient_scale = 0.5F};
    uint8_t keep[COUNT];
    operand master = floats(kernels, COUNT, 1), first = floats(kernels, COUNT, 2);
    operand second = floats(kernels, COUNT, 3), gradient = floats(kernels, COUNT, 4);
    const exec_kernel_table *table = kernels->table;
    void *device_keep = allocate(kernels, COUNT);
    void *weights = table->value_bytes == (int)sizeof(float)
                        ? master.device
                        : allocate(kernels, COUNT * (size_t)table->value_bytes);
    table->clear(kernels, first.device, COUNT * sizeof(float));
    table->clear(kernels, second.device, COUNT * sizeof(float));
    for (int index = 0; index < COUNT; index++) {
        keep[index] = index % 5 != 2;
        first.exact[index] = second.exact[index] = 0;
    }
    table->to_device(kernels, device_keep, keep, COUNT);
    for (int step = 1; step <= STEPS; step++) {
        exec_adamw options = base;
        options.step = step;
        table->adamw(kernels, &options, master.device, first.device, second.device, gradient.device,
                     step < STEPS ? NULL : device_keep, weights, COUNT);
        for (int index = 0; index < COUNT; index++) {
            const double slope = gradient.exact[index] * (double)base.gradient_scale;
            const double beta1 = (double)base.beta1, beta2 = (double)base.beta2;
            first.exact[index] = beta1 * first.exact[index] + (1 - beta1) * slope;
            second.exact[index] = beta2 * second.exact[index] + (1 - beta2) * slope * slope;
            const double change =
                first.exact[index] / (1 - pow(beta1, step)) /
                (sqrt(second.exact[index] / (1 - pow(beta2, step))) + (double)base.epsilon);
            master.exact[index] -= (double)base.learning_rate *
                                   (change + (double)base.weight_decay * master.exact[index]);
        }
    }
    for (int index = 0; index < COUNT; index++) {
        if (keep[index]) continue;
        master.exact[index] = first.exact[index] = second.exact[index] = 0;
    }
    double worst = 0;
    if (weights != master.device) table->release(kernels, weights);
    table->release(kernels, device_keep);
    compare_and_drop((operand *[]){&master, &first, &second}, 3, &worst);
    drop(&gradient);
    return finish(kernels, worst);
}

const kernel_case kernel_cases[] = {
    {"matmul", matmul_error},
    {"groups", groups_error},
    {"sums", sums_error},
    {"layer norm", layer_norm_error},
    {"gelu", gelu_error},
    {"swiglu", swiglu_error},
    {"spread heads", spread_heads_error},
    {"dense attention", dense_attention_error},
    {"sparse attention", sparse_attention_error},
    {"sorted attention", sorted_attention_error},
    {"embed", embed_error},
    {"cross entropy", cross_entropy_error},
    {"moved rows", moved_rows_error},
    {"combined rows", combined_rows_error},
    {"sum of squares", sum_of_squares_error},
    {"adamw", adamw_error},
};
const int kernel_case_count = sizeof kernel_cases / sizeof *kernel_cases;
