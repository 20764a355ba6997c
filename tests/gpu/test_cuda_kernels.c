/// Every operation of the CUDA backends beside plain C, with random input: fp32, and bf16 from the
/// same rounded numbers. Then what only CUDA has: marks, hand-overs, parts of a GPU.
#include "pair.h"
#include "tests/exec/projections.h"
#include "tests/gpu/gpu_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double fp32_tolerance = 4e-6;

/// Calls an operation of the table on both sides; A(x) is array x's memory on the side.
#define ON_BOTH(pair, operation, ...)                                                              \
    for (int which = 0; which < 2; which++) {                                                      \
        exec_kernels *side = which == 0 ? (pair)->cpu : (pair)->gpu;                               \
        side->table->operation(side, __VA_ARGS__);                                                 \
    }
#define A(array) ((array)->memory[which])
/// Rows, or elements of rows: on the cpu those of the limit, if there is one.
#define R(count) limited(pair, which, (int)(count))

static int limited(const gpu_pair *pair, int which, int count)
{
    return which == 0 && pair->most > 0 ? count / pair->most * pair->live : count;
}

static void check_matmul(gpu_pair *pair, exec_matmul shape)
{
    const size_t rows = (size_t)shape.rows, columns = (size_t)shape.columns;
    const size_t inner = (size_t)shape.inner;
    const pair_array *a = pair_random(pair, PAIR_VALUES, rows * inner, 1.0F);
    const pair_array *b = pair_random(pair, PAIR_VALUES, inner * columns, 1.0F);
    const pair_type type = shape.is_float ? PAIR_FLOATS : PAIR_VALUES;
    const pair_array *c = pair_random(pair, type, rows * columns, 1.0F);
    pair->what = "matmul";
    for (int which = 0; which < 2; which++) {
        exec_kernels *side = which == 0 ? pair->cpu : pair->gpu;
        exec_matmul own = shape;
        *(shape.transposes_a ? &own.inner : &own.rows) =
            R(shape.transposes_a ? shape.inner : shape.rows);
        side->table->matmul(side, &own, A(a), A(b), A(c));
    }
    pair_check(pair, "product", c, shape.is_float ? fp32_tolerance : pair_value_tolerance(pair));
}

static void check_matmuls(gpu_pair *pair, int scale)
{
    for (int flags = 0; flags < 16; flags++) {
        check_matmul(pair, (exec_matmul){.rows = 40 * scale,
                                         .columns = 24 * scale,
                                         .inner = 56 * scale,
                                         .transposes_a = flags & 1,
                                         .transposes_b = flags & 2,
                                         .accumulates = flags & 4,
                                         .is_float = flags & 8});
    }
    check_matmul(pair, (exec_matmul){.rows = 3, .columns = 5, .inner = 7});
    check_matmul(pair, (exec_matmul){.rows = 3, .columns = 8, .inner = 0});
    check_matmul(pair, (exec_matmul){.rows = 0, .columns = 8, .inner = 8});
}

/// Rows of groups of unlike size, one of them empty.
static exec_groups groups_of(gpu_pair *pair, int scale, const pair_array **first)
{
    const int begin[] = {0, 3 * scale, 3 * scale, 5 * scale, 12 * scale};
    *first = pair_given(pair, PAIR_INTS, begin, 5);
    return (exec_groups){.count = 4, .row_count = 12 * scale};
}

/// The three products of experts.
static void check_groups(gpu_pair *pair, int scale, int input, int output)
{
    const pair_array *first;
    const exec_groups shape = groups_of(pair, scale, &first);
    exec_groups groups[2] = {shape, shape};
    groups[0].first = first->memory[0];
    groups[1].first = first->memory[1];
    const size_t rows = (size_t)shape.row_count, in = (size_t)input, out = (size_t)output;
    const pair_array *w = pair_random(pair, PAIR_VALUES, 4 * in * out, 1.0F);
    const pair_array *of_w = pair_random(pair, PAIR_FLOATS, 4 * in * out, 1.0F);
    const double tolerance = pair_value_tolerance(pair);
    pair->what = "groups";
    for (int accumulates = 0; accumulates < 2; accumulates++) {
        const pair_array *x = pair_random(pair, PAIR_VALUES, rows * in, 1.0F);
        const pair_array *y = pair_random(pair, PAIR_VALUES, rows * out, 1.0F);
        const exec_matmul forward = {
            .columns = output, .inner = input, .accumulates = accumulates != 0};
        const exec_matmul backward = {.columns = input,
                                      .inner = output,
                                      .transposes_b = true,
                                      .accumulates = accumulates != 0};
        const exec_matmul weight = {.rows = input,
                                    .columns = output,
                                    .transposes_a = true,
                                    .accumulates = accumulates != 0,
                                    .is_float = true};
        ON_BOTH(pair, group_matmul, &weight, &groups[which], A(x), A(y), A(of_w));
        pair_check(pair, "gradient of matrices", of_w, fp32_tolerance);
        ON_BOTH(pair, group_matmul, &forward, &groups[which], A(x), A(w), A(y));
        pair_check(pair, "product", y, tolerance);
        ON_BOTH(pair, group_matmul, &backward, &groups[which], A(y), A(w), A(x));
        pair_check(pair, "product with transposed matrices", x, 2 * tolerance);
    }
}

/// Memory of a routing on a side.
static exec_routing routing_of(const exec_routing *shape, const pair_array *const arrays[10],
                               int which)
{
    exec_routing made = *shape;
    made.probability = A(arrays[0]);
    made.weight = A(arrays[1]);
    made.place_weight = A(arrays[2]);
    made.first_entry = A(arrays[3]);
    made.expert = A(arrays[4]);
    made.place = A(arrays[5]);
    made.row = A(arrays[6]);
    made.count = A(arrays[7]);
    made.first_place = A(arrays[8]);
    made.place_expert = A(arrays[9]);
    return made;
}

static void check_routing(gpu_pair *pair, exec_routing shape)
{
    enum { ARRAYS = 10 };
    static const char *const names[] = {
        "probability", "weight", "weight at a place", "first entry",      "expert", "place",
        "row",         "count",  "first place",       "expert at a place"};
    const size_t rows = (size_t)shape.row_count, experts = (size_t)shape.expert_count;
    const size_t entries = rows * (size_t)shape.top_k;
    const size_t counts[ARRAYS] = {rows * experts, entries, entries, rows + 1,    entries,
                                   entries,        entries, experts, experts + 1, entries};
    const pair_array *arrays[ARRAYS];
    for (int index = 0; index < ARRAYS; index++) {
        arrays[index] = index < 3 ? pair_random(pair, PAIR_FLOATS, counts[index], 1.0F)
                                  : pair_indices(pair, counts[index], 1);
    }
    const pair_array *logits = pair_random(pair, PAIR_FLOATS, rows * experts, 3.0F);
    const pair_array *slope = pair_random(pair, PAIR_FLOATS, entries, 1.0F);
    const pair_array *gradient = pair_random(pair, PAIR_VALUES, rows * experts, 1.0F);
    const exec_routing routing[2] = {routing_of(&shape, arrays, 0), routing_of(&shape, arrays, 1)};
    char what[80];
    snprintf(what, sizeof what, "routing, %d of %d experts, %d rounds", shape.top_k,
             shape.expert_count, shape.sinkhorn_rounds);
    pair->what = what;
    ON_BOTH(pair, route, &routing[which], A(logits));
    for (int index = 0; index < ARRAYS; index++) {
        pair_check(pair, names[index], arrays[index], index < 3 ? fp32_tolerance : 0.0);
    }
    ON_BOTH(pair, route_input, &routing[which], A(slope), 0.5, A(gradient));
    pair_check(pair, "gradient of the logits", gradient, pair_value_tolerance(pair));
    pair->what = "";
}

static void check_all_routing(gpu_pair *pair)
{
    check_routing(pair, (exec_routing){.row_count = 70, .expert_count = 8, .top_k = 2});
    check_routing(pair, (exec_routing){.row_count = 9, .expert_count = 3, .top_k = 3});
    check_routing(pair, (exec_routing){.row_count = 33, .expert_count = 256, .top_k = 8});
    check_routing(
        pair, (exec_routing){.row_count = 50, .expert_count = 5, .top_k = 2, .sinkhorn_rounds = 3});
    if (gpu_is_small) return;
    check_routing(pair, (exec_routing){.row_count = 8192, .expert_count = 64, .top_k = 8});
}

static void check_elements(gpu_pair *pair, size_t count)
{
    const pair_array *x = pair_random(pair, PAIR_VALUES, count, 4.0F);
    const pair_array *y = pair_random(pair, PAIR_VALUES, count, 1.0F);
    const pair_array *f = pair_random(pair, PAIR_FLOATS, count, 1.0F);
    const pair_array *g = pair_random(pair, PAIR_FLOATS, count, 1.0F);
    const double tolerance = pair_value_tolerance(pair);
    pair->what = "elements";
    ON_BOTH(pair, add, A(y), A(x), (size_t)R(count));
    pair_check(pair, "add", y, tolerance);
    ON_BOTH(pair, add_floats, A(f), A(g), count);
    pair_check(pair, "add_floats", f, fp32_tolerance);
    ON_BOTH(pair, gelu_input, A(x), A(y), (size_t)R(count));
    pair_check(pair, "gelu_input", y, tolerance);
    ON_BOTH(pair, gelu, A(x), A(y), (size_t)R(count));
    pair_check(pair, "gelu", y, tolerance);
    ON_BOTH(pair, gelu, A(x), A(x), (size_t)R(count));
    pair_check(pair, "gelu in place", x, tolerance);
    ON_BOTH(pair, clear, A(f), count * sizeof(float));
    pair_check(pair, "clear", f, 0.0);
    ON_BOTH(pair, copy, A(f), A(g), (size_t)R(count) * sizeof(float));
    pair_check(pair, "copy", f, fp32_tolerance);
}

static void check_optimizer(gpu_pair *pair, size_t count)
{
    const pair_array *master = pair_random(pair, PAIR_FLOATS, count, 1.0F);
    const pair_array *moment1 = pair_random(pair, PAIR_FLOATS, count, 0.1F);
    const pair_array *root = pair_random(pair, PAIR_FLOATS, count, 0.1F);
    const pair_array *gradient = pair_random(pair, PAIR_FLOATS, count, 0.1F);
    const pair_array *weights = pair_random(pair, PAIR_VALUES, count, 1.0F);
    uint8_t *keep = calloc(count, 1);
    if (keep == NULL) abort();
    for (size_t index = 0; index < count; index++) {
        keep[index] = index % 3 != 0;
    }
    const pair_array *kept = pair_given(pair, PAIR_BYTES, keep, count);
    free(keep);
    // Second moments are not negative: the gradient squared, by one update from zero.
    ON_BOTH(pair, clear, A(root), count * sizeof(float));
    const exec_adamw options = {.learning_rate = 0.01F,
                                .beta1 = 0.9F,
                                .beta2 = 0.95F,
                                .epsilon = 1e-8F,
                                .weight_decay = 0.1F,
                                .step = 3,
                                .gradient_scale = 0.5F};
    pair->what = "adamw";
    for (int which = 0; which < 2; which++) {
        exec_kernels *side = which == 0 ? pair->cpu : pair->gpu;
        void *of_weights = side->table->value_bytes == 4 ? A(master) : A(weights);
        side->table->adamw(side, &options, A(master), A(moment1), A(root), A(gradient), NULL,
                           of_weights, count);
        side->table->adamw(side, &options, A(master), A(moment1), A(root), A(gradient), A(kept),
                           of_weights, count);
    }
    pair_check(pair, "master", master, fp32_tolerance);
    pair_check(pair, "first moment", moment1, fp32_tolerance);
    pair_check(pair, "second moment", root, fp32_tolerance);
    const double expected = pair->cpu->table->sum_of_squares(pair->cpu, gradient->memory[0], count);
    const double actual = pair->gpu->table->sum_of_squares(pair->gpu, gradient->memory[1], count);
    const float sums[2] = {(float)expected, (float)actual};
    if (!(sums[1] - sums[0] <= 1e-6F * sums[0] && sums[0] - sums[1] <= 1e-6F * sums[0])) {
        printf("sum_of_squares: %.9g, not %.9g\n", actual, expected);
        pair->failure_count++;
    }
}

static void check_norm(gpu_pair *pair, int rows, int width)
{
    const size_t count = (size_t)rows * (size_t)width;
    const pair_array *input = pair_random(pair, PAIR_VALUES, count, 2.0F);
    const pair_array *weight = pair_random(pair, PAIR_VALUES, (size_t)width, 1.0F);
    const pair_array *bias = pair_random(pair, PAIR_VALUES, (size_t)width, 1.0F);
    const pair_array *output = pair_random(pair, PAIR_VALUES, count, 1.0F);
    const pair_array *mean = pair_random(pair, PAIR_FLOATS, (size_t)rows, 1.0F);
    const pair_array *inverse = pair_random(pair, PAIR_FLOATS, (size_t)rows, 1.0F);
    const pair_array *slope = pair_random(pair, PAIR_VALUES, count, 1.0F);
    const pair_array *gradient = pair_random(pair, PAIR_VALUES, count, 1.0F);
    const pair_array *of_weight = pair_random(pair, PAIR_FLOATS, (size_t)width, 1.0F);
    const pair_array *of_bias = pair_random(pair, PAIR_FLOATS, (size_t)width, 1.0F);
    const double tolerance = pair_value_tolerance(pair);
    pair->what = "norm";
    ON_BOTH(pair, layer_norm, A(input), A(weight), A(bias), R(rows), width, A(output), A(mean),
            A(inverse));
    pair_check(pair, "output", output, tolerance);
    pair_check(pair, "mean", mean, 1e-4); // sums near zero
    pair_check(pair, "inverse deviation", inverse, fp32_tolerance);
    ON_BOTH(pair, layer_norm_input, A(slope), A(input), A(weight), A(mean), A(inverse), R(rows),
            width, A(gradient));
    pair_check(pair, "input gradient", gradient, tolerance);
    ON_BOTH(pair, layer_norm_weight, A(slope), A(input), A(mean), A(inverse), R(rows), width,
            A(of_weight), A(of_bias));
    pair_check(pair, "weight gradient", of_weight, 2e-5);
    pair_check(pair, "bias gradient", of_bias, 2e-5);
    ON_BOTH(pair, add_bias, A(output), A(weight), R(rows), width);
    pair_check(pair, "add_bias", output, tolerance);
    ON_BOTH(pair, column_sums, A(slope), R(rows), width, A(of_weight));
    pair_check(pair, "column_sums", of_weight, 2e-5);
}

/// Scores in steps, so that many tie.
static void check_choice(gpu_pair *pair, int sequences, int length, int count)
{
    const size_t rows = (size_t)(sequences * length), chosen_count = (size_t)(sequences * count);
    float *steps = calloc(rows, sizeof *steps);
    if (steps == NULL) abort();
    for (size_t row = 0; row < rows; row++) {
        steps[row] = (float)((int)(row * 7919 % 23) - 11) / 4;
    }
    const pair_array *score = pair_given(pair, PAIR_FLOATS, steps, rows);
    const pair_array *row = pair_indices(pair, chosen_count, 1);
    const pair_array *before = pair_indices(pair, rows + 1, 1);
    const pair_array *gate = pair_random(pair, PAIR_FLOATS, chosen_count, 1.0F);
    const pair_array *slope = pair_random(pair, PAIR_FLOATS, chosen_count, 1.0F);
    free(steps);
    pair->what = "choice of rows";
    for (int which = 0; which < 2; which++) {
        exec_kernels *side = which == 0 ? pair->cpu : pair->gpu;
        const exec_chosen chosen = {sequences, length, count, A(row), A(before), A(gate)};
        side->table->choose_rows(side, &chosen, A(score));
        side->table->gate_input(side, A(gate), A(slope), chosen_count);
    }
    pair_check(pair, "rows", row, 0.0);
    pair_check(pair, "rows before", before, 0.0);
    pair_check(pair, "gates", gate, fp32_tolerance);
    pair_check(pair, "gate_input", slope, fp32_tolerance);
}

static void check_rows(gpu_pair *pair, int rows, int width)
{
    const size_t count = (size_t)rows * (size_t)width;
    const pair_array *from = pair_random(pair, PAIR_VALUES, count, 1.0F);
    const pair_array *to = pair_random(pair, PAIR_VALUES, count, 1.0F);
    const pair_array *row = pair_indices(pair, (size_t)rows, rows);
    const pair_array *weight = pair_random(pair, PAIR_FLOATS, 2 * (size_t)rows, 1.0F);
    const pair_array *source = pair_indices(pair, 2 * (size_t)rows, rows);
    const pair_array *dot = pair_random(pair, PAIR_FLOATS, (size_t)rows, 1.0F);
    int *first = calloc((size_t)rows + 1, sizeof *first), *turned = calloc((size_t)rows, 4);
    if (first == NULL || turned == NULL) abort();
    for (int index = 0; index < rows; index++) {
        first[index + 1] = first[index] + index % 3; // none, one or two entries, mean 1
        turned[index] = (index + 5) % rows;
    }
    const pair_array *entries = pair_given(pair, PAIR_INTS, first, (size_t)rows + 1);
    const pair_array *permuted = pair_given(pair, PAIR_INTS, turned, (size_t)rows);
    free(first);
    free(turned);
    const double tolerance = pair_value_tolerance(pair);
    pair->what = "rows";
    ON_BOTH(pair, gather_rows, A(from), A(row), R(rows), width, A(to));
    pair_check(pair, "gather_rows", to, tolerance);
    ON_BOTH(pair, scatter_rows, A(from), A(permuted), R(rows), width, A(to));
    pair_check(pair, "scatter_rows", to, tolerance);
    ON_BOTH(pair, combine_rows, A(from), A(entries), A(source), A(weight), 1, rows, width, A(to));
    pair_check(pair, "combine_rows", to, tolerance);
    ON_BOTH(pair, combine_rows, A(from), A(entries), A(source), NULL, 1, rows, width, A(to));
    pair_check(pair, "combine_rows without weights", to, tolerance);
    ON_BOTH(pair, combine_rows, A(from), NULL, NULL, A(weight), -1, rows, width, A(to));
    pair_check(pair, "combine_rows row by row", to, tolerance);
    ON_BOTH(pair, row_dots, A(from), A(row), A(to), NULL, R(rows), width, A(dot));
    pair_check(pair, "row_dots", dot, tolerance);
    ON_BOTH(pair, scale_rows, A(from), A(weight), R(rows), width, A(from));
    pair_check(pair, "scale_rows", from, tolerance);
}

static void check_ends(gpu_pair *pair, int rows, int width, int classes, int positions)
{
    const size_t count = (size_t)rows * (size_t)width;
    const pair_array *token = pair_indices(pair, (size_t)rows, classes);
    const pair_array *position = pair_indices(pair, (size_t)rows, positions);
    const size_t token_count = (size_t)classes * (size_t)width;
    const size_t position_count = (size_t)positions * (size_t)width;
    const pair_array *tokens = pair_random(pair, PAIR_VALUES, token_count, 1.0F);
    const pair_array *places = pair_random(pair, PAIR_VALUES, position_count, 1.0F);
    const pair_array *of_tokens = pair_random(pair, PAIR_FLOATS, token_count, 1.0F);
    const pair_array *of_places = pair_random(pair, PAIR_FLOATS, position_count, 1.0F);
    const pair_array *output = pair_random(pair, PAIR_VALUES, count, 1.0F);
    const double tolerance = pair_value_tolerance(pair);
    pair->what = "ends";
    ON_BOTH(pair, embed, A(token), A(position), A(tokens), A(places), rows, width, A(output));
    pair_check(pair, "embed", output, tolerance);
    const pair_array *slope = pair_random(pair, PAIR_VALUES, count, 1.0F);
    ON_BOTH(pair, embed_weight, A(slope), A(token), A(position), rows, width, classes, positions,
            A(of_tokens), A(of_places));
    pair_check(pair, "token gradient", of_tokens, fp32_tolerance);
    pair_check(pair, "position gradient", of_places, fp32_tolerance);
    const size_t logit_count = (size_t)rows * (size_t)classes;
    const pair_array *logits = pair_random(pair, PAIR_VALUES, logit_count, 8.0F);
    const pair_array *loss = pair_random(pair, PAIR_FLOATS, (size_t)rows, 1.0F);
    const pair_array *sure = pair_random(pair, PAIR_FLOATS, 2 * (size_t)rows, 1.0F);
    ON_BOTH(pair, cross_entropy, A(logits), A(token), R(rows), classes, 0.25F, A(loss), A(sure),
            A(logits));
    pair_check(pair, "loss", loss, fp32_tolerance);
    pair_check(pair, "confidence", sure, fp32_tolerance);
    pair_check(pair, "gradient of the logits", logits, tolerance);
}

/// Lists that leave out every other block but the first and the block itself.
static void thin_lists(const int *first_row, int sequences, int block_rows, int *first_entry,
                       int *key_block)
{
    int number = 0, entry = 0;
    for (int sequence = 0; sequence < sequences; sequence++) {
        const int rows = first_row[sequence + 1] - first_row[sequence];
        const int first = number, end = first + (rows + block_rows - 1) / block_rows;
        for (; number < end; number++) {
            first_entry[number] = entry;
            for (int key = first; key <= number; key++) {
                if (key == first || key == number || (key - first) % 2 == 0) {
                    key_block[entry++] = key;
                }
            }
        }
    }
    first_entry[number] = entry;
}

/// Lists of sorted rows: blocks after the own one, and blocks of which some rows attend to nothing.
///
/// @param first_key [rows] out
static void sorted_lists(exec_kernels *cpu, const exec_attention *shape, int rows, int *first_entry,
                         int *key_block, int *first_key)
{
    enum { BITS = 3 };
    uint8_t *bucket = malloc((size_t)rows);
    int *order = malloc((size_t)rows * sizeof *order);
    float *projection = malloc((size_t)rows * 2 * BITS * sizeof *projection);
    int met_count[2];
    const exec_block_choice choice = {true,      BITS,        0,         order,
                                      first_key, first_entry, key_block, met_count};
    if (bucket == NULL || order == NULL || projection == NULL) abort();
    for (int row = 0; row < rows; row++) {
        bucket[row] = (uint8_t)(row * 7 % 11 * row % 6);
    }
    project_buckets(bucket, bucket, rows, BITS, projection);
    cpu->table->choose_blocks(cpu, shape, &choice, projection);
    free(projection);
    free(order);
    free(bucket);
}

typedef enum list_kind { DENSE, THIN, SORTED, LIVE, LIST_KIND_COUNT } list_kind;

static void limit(gpu_pair *pair, int live, int most);

static void check_attention(gpu_pair *pair, int block_rows, int heads, int head_width, int rows,
                            list_kind kind)
{
    static const char *const names[] = {"", ", thin", ", sorted", ", live"};
    // A whole number of blocks, no rows at all, and a last block that is not full.
    const int first_row[] = {0, 2 * block_rows, 2 * block_rows, rows};
    int first_entry[256] = {0}, key_block[4096], first_key[4096];
    exec_attention shape = {.head_count = heads,
                            .head_width = head_width,
                            .sequence_count = 3,
                            .first_row = first_row,
                            .block_rows = block_rows};
    for (int sequence = 0; sequence < 3; sequence++) {
        shape.block_count +=
            (first_row[sequence + 1] - first_row[sequence] + block_rows - 1) / block_rows;
    }
    if (kind == THIN) thin_lists(first_row, 3, block_rows, first_entry, key_block);
    if (kind == SORTED) sorted_lists(pair->cpu, &shape, rows, first_entry, key_block, first_key);
    exec_attention shapes[2] = {shape, shape};
    const int most_rows[] = {0, rows, 2 * rows, 3 * rows};
    if (kind == LIVE) { // the GPU takes the first rows from its own memory
        shapes[1].first_row = most_rows;
        shapes[1].block_count = 3 * ((rows + block_rows - 1) / block_rows);
        shapes[1].live_first_row = pair_given(pair, PAIR_INTS, first_row, 4)->memory[1];
        limit(pair, rows, 3 * rows);
    } else if (kind != DENSE) {
        const size_t blocks = (size_t)shape.block_count;
        const pair_array *first = pair_given(pair, PAIR_INTS, first_entry, blocks + 1);
        const pair_array *keys =
            pair_given(pair, PAIR_INTS, key_block, (size_t)first_entry[blocks]);
        const pair_array *from = pair_given(pair, PAIR_INTS, first_key, (size_t)rows);
        for (int which = 0; which < 2; which++) {
            shapes[which].first_entry = A(first);
            shapes[which].key_block = A(keys);
            if (kind == SORTED) shapes[which].first_key = A(from);
        }
    }
    const size_t values = (size_t)rows * (size_t)heads * (size_t)head_width;
    const pair_array *qkv = pair_random(pair, PAIR_VALUES, 3 * values, 2.0F);
    const pair_array *output = pair_random(pair, PAIR_VALUES, values, 1.0F);
    const pair_array *log_sum = pair_random(pair, PAIR_FLOATS, (size_t)(rows * heads), 1.0F);
    const pair_array *slope = pair_random(pair, PAIR_VALUES, values, 1.0F);
    const pair_array *gradient = pair_random(pair, PAIR_VALUES, 3 * values, 1.0F);
    char what[80];
    snprintf(what, sizeof what, "attention, blocks of %d, heads of %d%s", block_rows, head_width,
             names[kind]);
    pair->what = what;
    const bool is_fp32 = pair->gpu->table->value_bytes == 4;
    ON_BOTH(pair, attention, &shapes[which], A(qkv), A(output), A(log_sum));
    pair_check(pair, "output", output, is_fp32 ? 4e-6 : 6e-3);
    pair_check(pair, "log_sum", log_sum, is_fp32 ? 4e-6 : 1e-4);
    ON_BOTH(pair, attention_input, &shapes[which], A(qkv), A(output), A(log_sum), A(slope),
            A(gradient));
    pair_check(pair, "gradient", gradient, is_fp32 ? 1e-5 : 1e-2);
    pair->what = "";
    limit(pair, 0, 0);
}

/// Compares lists: buckets that many rows share, so that lists are uneven.
static void check_chosen_blocks(gpu_pair *pair, bool sorts_rows, int block_rows, int rows)
{
    enum { BITS = 3 };
    const int first_row[] = {0, rows / 3, rows / 3, rows};
    exec_attention shape = {
        .head_count = 1, .head_width = 8, .sequence_count = 3, .first_row = first_row};
    shape.block_rows = block_rows;
    for (int sequence = 0; sequence < 3; sequence++) {
        shape.block_count +=
            (first_row[sequence + 1] - first_row[sequence] + block_rows - 1) / block_rows;
    }
    const size_t count = (size_t)rows, blocks = (size_t)shape.block_count;
    const size_t entries = (size_t)exec_dense_block_count(&shape);
    const pair_array *projection = pair_random(pair, PAIR_FLOATS, count * 2 * BITS, 1.0F);
    const pair_array *row = pair_indices(pair, count, 1);
    const pair_array *first_key = pair_indices(pair, count, 1);
    const pair_array *first_entry = pair_indices(pair, blocks + 1, 1);
    const pair_array *key_block = pair_indices(pair, entries, 1);
    const pair_array *met_count = pair_indices(pair, 2, 1);
    pair->what = sorts_rows ? "sorted blocks" : "chosen blocks";
    for (int which = 0; which < 2; which++) {
        exec_kernels *side = which == 0 ? pair->cpu : pair->gpu;
        const exec_block_choice choice = {.sorts_rows = sorts_rows,
                                          .bit_count = BITS,
                                          .affinity = 1,
                                          .row = A(row),
                                          .first_key = A(first_key),
                                          .first_entry = A(first_entry),
                                          .key_block = A(key_block),
                                          .met_count = A(met_count)};
        side->table->choose_blocks(side, &shape, &choice, A(projection));
    }
    pair_check(pair, "rows", row, 0.0);
    pair_check(pair, "first keys", first_key, 0.0);
    pair_check(pair, "first entries", first_entry, 0.0);
    pair_check(pair, "key blocks", key_block, 0.0);
    pair_check(pair, "counts", met_count, 0.0);
}

static void check_all_attention(gpu_pair *pair)
{
    for (list_kind kind = DENSE; kind < LIST_KIND_COUNT; kind++) {
        check_attention(pair, 16, 2, 8, 75, kind);
        check_attention(pair, 32, 1, 16, 100, kind);
        check_attention(pair, 64, 2, 32, 300, kind);
        check_attention(pair, 64, 1, 64, 200, kind);
    }
    check_attention(pair, 64, 1, 128, 150, DENSE);
    check_attention(pair, 64, 3, 48, 150, DENSE); // no width of the matrix units' kernels
    for (int sorts_rows = 0; sorts_rows < 2; sorts_rows++) {
        check_chosen_blocks(pair, sorts_rows != 0, 16, 100);
        check_chosen_blocks(pair, sorts_rows != 0, 16, 700);
    }
    if (gpu_is_small) return;
    check_attention(pair, 64, 8, 64, 4000, DENSE);
    check_attention(pair, 64, 8, 128, 3000, THIN);
    check_attention(pair, 64, 8, 128, 3000, SORTED);
}

static void check_mask(gpu_pair *pair, size_t count)
{
    uint8_t *keep = calloc(count, 1);
    if (keep == NULL) abort();
    for (size_t at = 0; at < count; at += 5) {
        keep[at] = 1;
    }
    const pair_array *kept = pair_given(pair, PAIR_BYTES, keep, count);
    free(keep);
    const pair_array *gradient = pair_random(pair, PAIR_FLOATS, count, 1.0F);
    pair->what = "mask";
    ON_BOTH(pair, mask, A(gradient), A(kept), count);
    pair_check(pair, "mask", gradient, pair_value_tolerance(pair));
}

/// Has the GPU work on the first rows of those that it is given from here on; most 0: on all.
static void limit(gpu_pair *pair, int live, int most)
{
    const int extent[] = {0, live};
    const int *device = most > 0 ? pair_given(pair, PAIR_INTS, extent, 2)->memory[1] : NULL;
    pair->live = live;
    pair->most = most;
    pair->gpu->table->limit_rows(pair->gpu, device, most);
}

/// Who is left and who leaves, by states or by confidence; and what a classifier learns of it.
static void check_leaving(gpu_pair *pair, int sequences, int length)
{
    const int all = sequences * length;
    const size_t rows = (size_t)all;
    uint8_t *gone = calloc(rows, 1);
    float *squares = calloc(rows, sizeof *squares);
    if (gone == NULL || squares == NULL) abort();
    for (int row = 0; row < all; row++) {
        squares[row] = (float)(1 + row % 7) / 7;
        gone[row] = row % 3 == 1 || row / length == 1; // nobody is left of sequence 1
    }
    const pair_array *left = pair_given(pair, PAIR_BYTES, gone, rows);
    const pair_array *row = pair_indices(pair, rows, 1);
    const pair_array *first_row = pair_indices(pair, (size_t)sequences + 1, 1);
    const pair_array *extent = pair_indices(pair, 2, 1);
    const pair_array *product = pair_random(pair, PAIR_FLOATS, rows, 1.0F);
    const pair_array *square = pair_given(pair, PAIR_FLOATS, squares, rows);
    const pair_array *confidence = pair_random(pair, PAIR_FLOATS, 2 * rows, 1.0F);
    const pair_array *slope = pair_random(pair, PAIR_FLOATS, rows, 1.0F);
    const pair_array *sums = pair_random(pair, PAIR_FLOATS, 2, 1.0F);
    free(gone);
    free(squares);
    pair->what = "rows that leave";
    for (int which = 0; which < 2; which++) {
        exec_kernels *side = which == 0 ? pair->cpu : pair->gpu;
        const exec_live live = {sequences, length, A(left), A(row), A(first_row), A(extent)};
        const exec_compared states = {A(product), A(square), A(square)};
        float *bias = A(sums);
        exec_leaving leaving = {
            .row = A(row), .states = states, .stride = 2, .threshold = 0.5, .has_left = A(left)};
        side->table->find_live(side, &live);
        const int count = which == 0 ? live.extent[1] : all;
        if (which == 1) side->table->limit_rows(side, live.extent, all);
        side->table->judge_rows(side, &states, 0.25, bias, 0.125F, count, A(confidence), A(slope),
                                bias + 1);
        side->table->leave_rows(side, &leaving, count);
        leaving.states = (exec_compared){0};
        leaving.confidence = A(confidence);
        side->table->leave_rows(side, &leaving, count);
        if (which == 1) side->table->limit_rows(side, NULL, 0);
        side->table->find_live(side, &live);
    }
    pair_check(pair, "rows that are left", row, 0.0);
    pair_check(pair, "first rows", first_row, 0.0);
    pair_check(pair, "extent", extent, 0.0);
    pair_check(pair, "confidence", confidence, fp32_tolerance);
    pair_check(pair, "gradient", slope, fp32_tolerance);
    pair_check(pair, "bias gradient", sums, 2e-5);
}

static void check_heads(gpu_pair *pair, int rows, int head_width)
{
    enum { HEADS = 4, SHARED = 2 };
    const size_t width = (size_t)head_width, count = (size_t)rows * width;
    const pair_array *compact = pair_random(pair, PAIR_VALUES, (HEADS + 2 * SHARED) * count, 1.0F);
    const pair_array *spread = pair_random(pair, PAIR_VALUES, 3 * HEADS * count, 1.0F);
    const pair_array *angles = pair_random(pair, PAIR_FLOATS, 8 * width, 1.0F);
    const pair_array *up = pair_random(pair, PAIR_VALUES, count, 1.0F);
    const exec_heads heads = {HEADS, SHARED, head_width, 8, NULL, NULL};
    exec_heads of[2] = {heads, heads};
    for (int which = 0; which < 2; which++) {
        of[which].rotation = A(angles);
    }
    const double tolerance = pair_value_tolerance(pair);
    pair->what = "heads";
    ON_BOTH(pair, spread_heads, &of[which], A(compact), R(rows), A(spread));
    pair_check(pair, "spread_heads", spread, tolerance);
    ON_BOTH(pair, spread_heads_input, &of[which], A(spread), R(rows), A(compact));
    pair_check(pair, "spread_heads_input", compact, tolerance);
    ON_BOTH(pair, swiglu, A(compact), R(rows), head_width, A(up));
    pair_check(pair, "swiglu", up, tolerance);
    ON_BOTH(pair, swiglu_input, A(compact), A(up), R(rows), head_width, A(spread));
    pair_check(pair, "swiglu_input", spread, tolerance);
}

/// Operations over rows of which the GPU alone knows how many there are; the rest stays as it is.
static void check_limited(gpu_pair *pair, int live, int most)
{
    limit(pair, live, most);
    for (int flags = 0; flags < 16; flags++) {
        if ((flags & 3) == 3) continue; // is not done
        const int other = 24;
        check_matmul(pair, (exec_matmul){.rows = flags & 1 ? other : most,
                                         .columns = 40,
                                         .inner = flags & 1 ? most : other,
                                         .transposes_a = flags & 1,
                                         .transposes_b = flags & 2,
                                         .accumulates = flags & 4,
                                         .is_float = flags & 8});
    }
    check_elements(pair, (size_t)most * 16);
    check_elements(pair, (size_t)most * 7);
    check_norm(pair, most, 48);
    check_rows(pair, most, 36);
    check_heads(pair, most, 16);
    check_ends(pair, most, 40, 16, 12);
    limit(pair, 0, 0);
}

static int check_against_plain_c(exec_cuda_kind kind)
{
    gpu_pair both = {0};
    pair_open(&both, kind);
    check_matmuls(&both, 1);
    check_groups(&both, 4, 24, 40);
    check_groups(&both, 30, 136, 72);
    check_groups(&both, 2, 21, 37); // no width of the matrix units' kernels
    check_all_routing(&both);
    check_elements(&both, 1000);
    check_elements(&both, 77);
    check_optimizer(&both, 500);
    check_norm(&both, 300, 48);
    check_norm(&both, 3, 520);
    check_choice(&both, 3, 20, 7);
    check_choice(&both, 2, 600, 599);
    check_choice(&both, 1, 5, 1);
    check_rows(&both, 40, 36);
    check_rows(&both, 7, 300);
    check_ends(&both, 300, 40, 16, 12);
    check_mask(&both, 21000);
    check_all_attention(&both);
    check_heads(&both, 40, 16);
    check_leaving(&both, 3, 20);
    check_leaving(&both, 2, 700);
    check_limited(&both, 0, 80);
    check_limited(&both, 31, 80);
    check_limited(&both, 300, 600);
    if (!gpu_is_small) {
        check_matmuls(&both, 16);
        check_groups(&both, 300, 1024, 2048);
        check_elements(&both, 3000000);
        check_optimizer(&both, 1000000);
        check_norm(&both, 4096, 1024);
        check_choice(&both, 4, 4096, 512);
        check_rows(&both, 4096, 768);
        check_ends(&both, 8192, 512, 256, 1024);
        check_mask(&both, 786432);
    }
    error_message err = {.code = STATUS_OK};
    if (both.gpu->table->finish(both.gpu, &err) != STATUS_OK) {
        printf("%s: %s\n", both.gpu->table->name, err.message);
        both.failure_count++;
    }
    return pair_close(&both);
}

/// Parts of a GPU: what one offers another takes, and the time of a mark is not before mark 0.
static int check_parts(void)
{
    enum { PARTS = 4, COUNT = 5000 };
    exec_kernels *parts[PARTS];
    error_message err = {.code = STATUS_OK};
    float sent[COUNT], received[COUNT];
    int failures = 0;
    for (int place = 0; place < PARTS; place++) {
        if (gpu_open(EXEC_CUDA_BF16, place, PARTS, &parts[place], &err) != STATUS_OK) {
            printf("part %d of %d: %s\n", place, PARTS, err.message);
            return 1;
        }
    }
    for (int index = 0; index < COUNT; index++) {
        sent[index] = (float)index;
    }
    const exec_kernel_table *table = parts[0]->table;
    void *from = table->allocate(parts[0], sizeof sent);
    void *to = table->allocate(parts[3], sizeof sent);
    for (int round = 0; round < 3; round++) {
        exec_handover handover;
        sent[0] = (float)round;
        table->mark(parts[0], 0);
        table->to_device(parts[0], from, sent, sizeof sent);
        failures += table->offer(parts[0], from, sizeof sent, &handover, &err) != STATUS_OK;
        table->clear(parts[0], from, sizeof sent); // the offer holds a copy
        failures += table->take(parts[3], &handover, to, &err) != STATUS_OK;
        table->to_host(parts[3], received, to, sizeof received);
        failures += memcmp(sent, received, sizeof sent) != 0;
        table->mark(parts[0], 70);
        failures += table->finish(parts[0], &err) != STATUS_OK;
        failures += table->mark_ns(parts[0], 70) < 0;
    }
    exec_kernels *other = NULL;
    failures +=
        gpu_open(EXEC_CUDA_BF16, 0, 2, &other, &err) != STATUS_INVALID; // split into 4 already
    failures += table->allocate(parts[0], (size_t)1 << 50) != NULL;
    table->clear(parts[0], NULL, 1); // does nothing
    failures += table->finish(parts[0], &err) != STATUS_NO_MEMORY;
    const exec_handover none = {.magic = 1};
    failures += table->take(parts[3], &none, to, &err) != STATUS_BACKEND;
    table->release(parts[0], from);
    table->release(parts[3], to);
    for (int place = 0; place < PARTS; place++) {
        parts[place]->table->close(parts[place]);
    }
    if (failures > 0) printf("parts: %d failures, the last message: %s\n", failures, err.message);
    return failures;
}

int main(int argc, char **argv)
{
    gpu_begin(argc, argv);
    const int failures = check_against_plain_c(EXEC_CUDA_FP32) +
                         check_against_plain_c(EXEC_CUDA_BF16) + check_parts();
    printf("%s\n", failures == 0 ? "all operations agree with plain C" : "failed");
    return failures == 0 ? 0 : 1;
}
