/// Measures the CUDA backends on a GPU: products, attention, rows, pruned products, parts of the
/// GPU and hand-overs between them. One line of JSON per figure. usage: gpu_measure_kernels
/// [--smoke]
#include "tests/gpu/gpu_backend.h"

#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 5, PARTS_MAX = 8 };

typedef struct setup {
    bool is_smoke;
    int rows;  // tokens
    int width; // of the model
} setup;

/// Something that is enqueued once.
typedef struct operation {
    void (*enqueue)(const struct operation *one);
    exec_kernels *kernels;
    exec_matmul shape;
    exec_attention attention;
    void *a, *b, *c, *d;
    float *floats;
} operation;

static void require(status result, const error_message *err)
{
    bench_require(result, err);
}

/// Random values, so that the GPU draws the power that real ones make it draw.
static void *random_values(exec_kernels *kernels, size_t count)
{
    error_message err = {.code = STATUS_OK};
    float *numbers = malloc(count * sizeof *numbers);
    if (numbers == NULL) abort();
    uint64_t seed = 1;
    for (size_t index = 0; index < count; index++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        numbers[index] = (float)(seed >> 40) / (float)(1 << 24) - 0.5F;
    }
    void *values = kernels->table->allocate(kernels, count * 4);
    void *floats = kernels->table->allocate(kernels, count * 4);
    kernels->table->to_device(kernels, floats, numbers, count * 4);
    kernels->table->to_values(kernels, floats, values, count);
    require(kernels->table->finish(kernels, &err), &err);
    kernels->table->release(kernels, floats);
    free(numbers);
    return values;
}

static int compare(const void *a, const void *b)
{
    const double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/// Median ns of one, over samples of `repeats` after each other, after one that is not counted.
static double measure(const operation *one, int repeats)
{
    double sample[SAMPLES + 1];
    exec_kernels *kernels = one->kernels;
    error_message err = {.code = STATUS_OK};
    for (int index = 0; index <= SAMPLES; index++) {
        kernels->table->mark(kernels, 0);
        for (int repeat = 0; repeat < repeats; repeat++) {
            one->enqueue(one);
        }
        kernels->table->mark(kernels, 1);
        require(kernels->table->finish(kernels, &err), &err);
        sample[index] = (double)kernels->table->mark_ns(kernels, 1) / repeats;
    }
    qsort(sample + 1, SAMPLES, sizeof *sample, compare);
    return sample[1 + SAMPLES / 2];
}

static void enqueue_matmul(const operation *one)
{
    exec_kernels *kernels = one->kernels;
    kernels->table->matmul(kernels, &one->shape, one->a, one->b, one->c);
}

static const char *backend_name(const exec_kernels *kernels)
{
    return kernels->table->value_bytes == 2 ? "bf16" : "fp32";
}

/// The twelve products of a layer: four linears, each forward, for the input and for the weights.
static void measure_products(exec_kernels *kernels, const setup *of)
{
    static const char *const linears[] = {"qkv", "output", "up", "down"};
    static const char *const passes[] = {"F", "B", "W"};
    const int n = of->rows, d = of->width;
    const int from[] = {d, d, d, 4 * d}, to[] = {3 * d, d, 4 * d, d};
    void *a = random_values(kernels, (size_t)n * (size_t)d * 4);
    void *b = random_values(kernels, (size_t)n * (size_t)d * 4);
    void *c = random_values(kernels, (size_t)(n > d ? n : d) * (size_t)d * 4);
    for (int linear = 0; linear < 4; linear++) {
        const exec_matmul shapes[] = {
            {.rows = n, .columns = to[linear], .inner = from[linear]},
            {.rows = n, .columns = from[linear], .inner = to[linear], .transposes_b = true},
            {.rows = from[linear],
             .columns = to[linear],
             .inner = n,
             .transposes_a = true,
             .accumulates = true,
             .is_float = true}};
        for (int pass = 0; pass < 3; pass++) {
            const operation product = {.enqueue = enqueue_matmul,
                                       .kernels = kernels,
                                       .shape = shapes[pass],
                                       .a = a,
                                       .b = b,
                                       .c = c};
            const double flop = 2.0 * n * from[linear] * to[linear];
            bench_print("product_tflop_per_s", flop / measure(&product, 10) * 1e-3, "TFLOP/s",
                        "%s n=%d d=%d %s %s", backend_name(kernels), n, d, linears[linear],
                        passes[pass]);
        }
    }
    kernels->table->release(kernels, a);
    kernels->table->release(kernels, b);
    kernels->table->release(kernels, c);
}

static void enqueue_attention(const operation *one)
{
    exec_kernels *kernels = one->kernels;
    kernels->table->attention(kernels, &one->attention, one->a, one->b, one->floats);
}

static void enqueue_attention_input(const operation *one)
{
    exec_kernels *kernels = one->kernels;
    kernels->table->attention_input(kernels, &one->attention, one->a, one->b, one->floats, one->c,
                                    one->d);
}

/// Lists with every `step`-th key block and the block itself; returns how many entries.
static int make_lists(int blocks, int step, int *first_entry, int *key_block)
{
    int entry = 0;
    for (int block = 0; block < blocks; block++) {
        first_entry[block] = entry;
        for (int key = 0; key <= block; key++) {
            if (key == block || (block - key) % step == 0) key_block[entry++] = key;
        }
    }
    first_entry[blocks] = entry;
    return entry;
}

/// One sequence of all rows, dense causal and thinner.
static void measure_attention(exec_kernels *kernels, const setup *of, int head_width)
{
    const int blocks = of->rows / 64, heads = of->width / head_width;
    const int first_row[] = {0, of->rows};
    const size_t values = (size_t)of->rows * (size_t)of->width;
    int *first_entry = malloc((size_t)(blocks + 1) * sizeof *first_entry);
    int *key_block = malloc((size_t)blocks * (size_t)(blocks + 1) / 2 * sizeof *key_block);
    if (first_entry == NULL || key_block == NULL) abort();
    operation attention = {.kernels = kernels,
                           .a = random_values(kernels, 3 * values),
                           .b = random_values(kernels, values),
                           .c = random_values(kernels, values),
                           .d = random_values(kernels, 3 * values),
                           .floats = random_values(kernels, values)};
    int *device_first = random_values(kernels, (size_t)blocks + 1);
    int *device_key = random_values(kernels, (size_t)blocks * (size_t)(blocks + 1) / 2);
    for (int step = 1; step <= 8; step *= 2) {
        const int entries = make_lists(blocks, step, first_entry, key_block);
        kernels->table->to_device(kernels, device_first, first_entry,
                                  (size_t)(blocks + 1) * sizeof *first_entry);
        kernels->table->to_device(kernels, device_key, key_block,
                                  (size_t)entries * sizeof *key_block);
        attention.attention = (exec_attention){.head_count = heads,
                                               .head_width = head_width,
                                               .sequence_count = 1,
                                               .first_row = first_row,
                                               .block_rows = 64,
                                               .block_count = blocks,
                                               .first_entry = device_first,
                                               .key_block = device_key};
        // Two products forward, five backward; half of a block on the diagonal counts.
        const double pairs = (entries - 0.5 * blocks) * 64.0 * 64.0 * heads;
        const double flop = 4.0 * pairs * head_width;
        attention.enqueue = enqueue_attention;
        bench_print("attention_forward_tflop_per_s", flop / measure(&attention, 5) * 1e-3,
                    "TFLOP/s", "%s rows=%d heads=%d width=%d every %d. block",
                    backend_name(kernels), of->rows, heads, head_width, step);
        attention.enqueue = enqueue_attention_input;
        bench_print("attention_backward_tflop_per_s", 2.5 * flop / measure(&attention, 5) * 1e-3,
                    "TFLOP/s", "%s rows=%d heads=%d width=%d every %d. block",
                    backend_name(kernels), of->rows, heads, head_width, step);
    }
    void *const all[] = {attention.a,      attention.b,  attention.c, attention.d,
                         attention.floats, device_first, device_key};
    for (int index = 0; index < 7; index++) {
        kernels->table->release(kernels, all[index]);
    }
    free(first_entry);
    free(key_block);
}

static void enqueue_norm(const operation *one)
{
    exec_kernels *kernels = one->kernels;
    kernels->table->layer_norm(kernels, one->a, one->b, one->b, one->shape.rows, one->shape.columns,
                               one->c, one->floats, one->floats + one->shape.rows);
}

static void enqueue_gelu(const operation *one)
{
    exec_kernels *kernels = one->kernels;
    const size_t count = (size_t)one->shape.rows * (size_t)one->shape.columns;
    kernels->table->gelu(kernels, one->a, one->c, count);
}

static void enqueue_column_sums(const operation *one)
{
    exec_kernels *kernels = one->kernels;
    kernels->table->column_sums(kernels, one->a, one->shape.rows, one->shape.columns, one->floats);
}

static void measure_rows(exec_kernels *kernels, const setup *of)
{
    const int n = of->rows, f = 4 * of->width;
    const size_t count = (size_t)n * (size_t)f;
    operation rows = {.kernels = kernels,
                      .shape = {.rows = n, .columns = f},
                      .a = random_values(kernels, count),
                      .b = random_values(kernels, (size_t)f),
                      .c = random_values(kernels, count),
                      .floats = random_values(kernels, (size_t)(2 * n + f))};
    const struct {
        const char *name;
        void (*enqueue)(const operation *one);
        int passes; // over the values
    } kinds[] = {{"layer_norm_gb_per_s", enqueue_norm, 2},
                 {"gelu_gb_per_s", enqueue_gelu, 2},
                 {"column_sums_gb_per_s", enqueue_column_sums, 1}};
    for (int kind = 0; kind < 3; kind++) {
        rows.enqueue = kinds[kind].enqueue;
        const double bytes = (double)count * kernels->table->value_bytes * kinds[kind].passes;
        bench_print(kinds[kind].name, bytes / measure(&rows, 10), "GB/s", "%s n=%d columns=%d",
                    backend_name(kernels), n, f);
    }
    void *const all[] = {rows.a, rows.b, rows.c, rows.floats};
    for (int index = 0; index < 4; index++) {
        kernels->table->release(kernels, all[index]);
    }
}

/// The same product on one part alone, and on all parts at once; times of one part relative to the
/// whole GPU's times the number of parts, 1 where a part is a smaller GPU and nothing worse.
static void measure_parts(const setup *of, int part_count, double whole_ns)
{
    exec_kernels *parts[PARTS_MAX];
    operation product[PARTS_MAX];
    error_message err = {.code = STATUS_OK};
    const int repeats = of->is_smoke ? 1 : 20, n = of->rows, d = of->width;
    const size_t count = (size_t)n * (size_t)d;
    for (int place = 0; place < part_count; place++) {
        require(gpu_open(EXEC_CUDA_BF16, place, part_count, &parts[place], &err), &err);
        product[place] = (operation){.enqueue = enqueue_matmul,
                                     .kernels = parts[place],
                                     .shape = {.rows = n, .columns = d, .inner = d},
                                     .a = random_values(parts[place], count),
                                     .b = random_values(parts[place], (size_t)d * (size_t)d),
                                     .c = random_values(parts[place], count)};
    }
    const double alone_ns = measure(&product[0], repeats);
    bench_print("part_alone_ratio", alone_ns / whole_ns / part_count, "", "bf16 n=%d d=%d parts=%d",
                n, d, part_count);
    for (int place = 0; place < part_count; place++) {
        parts[place]->table->mark(parts[place], 0);
    }
    for (int repeat = 0; repeat < repeats; repeat++) {
        for (int place = 0; place < part_count; place++) {
            enqueue_matmul(&product[place]);
        }
    }
    double slowest_ns = 0.0;
    for (int place = 0; place < part_count; place++) {
        parts[place]->table->mark(parts[place], 1);
    }
    for (int place = 0; place < part_count; place++) {
        require(parts[place]->table->finish(parts[place], &err), &err);
        const double own_ns = (double)parts[place]->table->mark_ns(parts[place], 1) / repeats;
        if (own_ns > slowest_ns) slowest_ns = own_ns;
    }
    bench_print("parts_together_to_alone_ratio", slowest_ns / alone_ns, "",
                "bf16 n=%d d=%d parts=%d", n, d, part_count);
    const size_t bytes = 2 * count;
    const int64_t begin_ns = bench_now_ns();
    for (int repeat = 0; repeat < repeats; repeat++) {
        exec_handover handover;
        require(parts[0]->table->offer(parts[0], product[0].a, bytes, &handover, &err), &err);
        require(parts[1]->table->take(parts[1], &handover, product[1].a, &err), &err);
    }
    require(parts[1]->table->finish(parts[1], &err), &err);
    bench_print("hand_over_us", (double)(bench_now_ns() - begin_ns) * 1e-3 / repeats, "us",
                "%zu bytes, parts=%d, from the host's view", bytes, part_count);
    for (int place = 0; place < part_count; place++) {
        parts[place]->table->release(parts[place], product[place].a);
        parts[place]->table->release(parts[place], product[place].b);
        parts[place]->table->release(parts[place], product[place].c);
        require(parts[place]->table->finish(parts[place], &err), &err);
    }
    for (int place = 0; place < part_count; place++) {
        parts[place]->table->close(parts[place]);
    }
}

static double whole_product_ns(exec_kernels *kernels, const setup *of)
{
    const size_t count = (size_t)of->rows * (size_t)of->width;
    const operation product = {
        .enqueue = enqueue_matmul,
        .kernels = kernels,
        .shape = {.rows = of->rows, .columns = of->width, .inner = of->width},
        .a = random_values(kernels, count),
        .b = random_values(kernels, (size_t)of->width * (size_t)of->width),
        .c = random_values(kernels, count)};
    const double ns = measure(&product, of->is_smoke ? 1 : 20);
    kernels->table->release(kernels, product.a);
    kernels->table->release(kernels, product.b);
    kernels->table->release(kernels, product.c);
    return ns;
}

int main(int argc, char **argv)
{
    setup of = {.is_smoke = bench_is_smoke(argc, argv), .rows = 4096, .width = 2048};
    if (of.is_smoke) of = (setup){.is_smoke = true, .rows = 128, .width = 64};
    gpu_begin(argc, argv);
    error_message err = {.code = STATUS_OK};
    double whole_ns = 0.0;
    static const exec_cuda_kind kinds[] = {EXEC_CUDA_BF16, EXEC_CUDA_FP32};
    for (int index = 0; index < 2; index++) {
        exec_kernels *kernels = NULL;
        require(gpu_open(kinds[index], 0, 1, &kernels, &err), &err);
        measure_products(kernels, &of);
        if (kinds[index] == EXEC_CUDA_BF16) {
            measure_attention(kernels, &of, 64);
            if (!of.is_smoke) measure_attention(kernels, &of, 128);
            whole_ns = whole_product_ns(kernels, &of);
        }
        measure_rows(kernels, &of);
        kernels->table->close(kernels);
    }
    for (int part_count = 2; part_count <= PARTS_MAX; part_count *= 2) {
        measure_parts(&of, part_count, whole_ns);
    }
    return 0;
}
