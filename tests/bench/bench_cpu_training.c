/// Training on one core: tokens/s of whole iterations of dense models, and GFLOP/s of the products
/// of matrices in them. bench_cpu_training.py measures the same models with PyTorch.
#include "base/arena.h"
#include "exec/model/layer.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { LAYER_MAX = 32, MICROBATCHES = 4 };

/// One rank that has the whole model. Every microbatch has a slot of its own, as in a pipeline
/// whose W come late.
typedef struct training {
    exec_model model;
    exec_kernels *kernels;
    exec_buffers *buffers;
    int layer_count;
    exec_layer *layers[LAYER_MAX];
    exec_slot *slots[LAYER_MAX];
    float *values, *gradient;
    int *token, *target;
    float *loss;
} training;

static void create(training *made, const exec_model *model, exec_kernels *kernels)
{
    error_message err = {0};
    *made = (training){.model = *model, .kernels = kernels};
    made->layer_count = exec_model_layer_count(model);
    bench_require(exec_model_check(model, &err), &err);
    made->buffers = exec_buffers_create(kernels);
    for (int layer = 0; layer < made->layer_count; layer++) {
        bench_require(
            exec_layer_create(&made->model, made->buffers, layer, &made->layers[layer], &err),
            &err);
        bench_require(exec_layer_initialise(made->layers[layer], &err), &err);
        bench_require(exec_slot_create(made->layers[layer], &made->slots[layer], &err), &err);
    }
    const size_t rows = (size_t)exec_model_row_count(model);
    made->values = memory_array(rows * (size_t)model->width, sizeof *made->values);
    made->gradient = memory_array(rows * (size_t)model->width, sizeof *made->gradient);
    made->token = memory_array(rows, sizeof *made->token);
    made->target = memory_array(rows, sizeof *made->target);
    made->loss = memory_array(rows, sizeof *made->loss);
    for (size_t row = 0; row < rows; row++) {
        made->token[row] = (int)(row * 37 % 251);
        made->target[row] = (int)((row + 1) * 37 % 251);
    }
}

static void destroy(training *destroyed)
{
    for (int layer = 0; layer < destroyed->layer_count; layer++) {
        exec_slot_destroy(destroyed->layers[layer], destroyed->slots[layer]);
        exec_layer_destroy(destroyed->layers[layer]);
    }
    exec_buffers_destroy(destroyed->buffers);
    free(destroyed->values);
    free(destroyed->gradient);
    free(destroyed->token);
    free(destroyed->target);
    free(destroyed->loss);
}

static void train_microbatch(training *of)
{
    error_message err = {0};
    exec_flow flow = {.values = of->values,
                      .row_count = exec_model_row_count(&of->model),
                      .token = of->token,
                      .target = of->target,
                      .loss = of->loss};
    for (int layer = 0; layer < of->layer_count; layer++) {
        bench_require(exec_layer_forward(of->layers[layer], of->slots[layer], &flow, &err), &err);
    }
    for (int layer = of->layer_count - 1; layer >= 0; layer--) {
        bench_require(
            exec_layer_backward_input(of->layers[layer], of->slots[layer], of->gradient, &err),
            &err);
        bench_require(exec_layer_backward_weight(of->layers[layer], of->slots[layer], &err), &err);
    }
}

static void iterate(void *context)
{
    training *of = context;
    error_message err = {0};
    double square = 0;
    for (int layer = 0; layer < of->layer_count; layer++) {
        of->kernels->table->clear(of->kernels, of->layers[layer]->gradient,
                                  of->layers[layer]->parameter_count * sizeof(float));
    }
    for (int microbatch = 0; microbatch < MICROBATCHES; microbatch++) {
        train_microbatch(of);
    }
    for (int layer = 0; layer < of->layer_count; layer++) {
        square += exec_layer_square_norm(of->layers[layer]);
    }
    const float scale = square > 1e-3 ? 1e-3F : 1.0F / MICROBATCHES;
    for (int layer = 0; layer < of->layer_count; layer++) {
        exec_layer_update(of->layers[layer], scale, NULL);
    }
    bench_require(of->kernels->table->finish(of->kernels, &err), &err);
}

/// A product of matrices with its operands.
typedef struct product {
    exec_kernels *kernels;
    exec_matmul shape;
    void *a, *b, *c;
} product;

static void multiply(void *context)
{
    product *of = context;
    of->kernels->table->matmul(of->kernels, &of->shape, of->a, of->b, of->c);
}

static void measure_product(bool smoke, exec_kernels *kernels, int rows, int columns, int inner)
{
    const exec_kernel_table *table = kernels->table;
    error_message err = {0};
    static const char *const kinds[] = {"F", "B", "W"};
    for (int kind = 0; kind < 3; kind++) {
        product of = {.kernels = kernels,
                      .shape = {.rows = rows,
                                .columns = columns,
                                .inner = inner,
                                .transposes_a = kind == 2,
                                .transposes_b = kind == 1,
                                .accumulates = kind == 2}};
        const size_t a = (size_t)rows * (size_t)inner, b = (size_t)inner * (size_t)columns;
        const size_t c = (size_t)rows * (size_t)columns;
        bench_require(table->allocate(kernels, a * sizeof(float), &of.a, &err), &err);
        bench_require(table->allocate(kernels, b * sizeof(float), &of.b, &err), &err);
        bench_require(table->allocate(kernels, c * sizeof(float), &of.c, &err), &err);
        const bench_time time = bench_measure(smoke, multiply, &of);
        const double flop = 2.0 * rows * columns * inner;
        bench_print("cpu_matmul_gflop_per_s", flop / time.median_ns, "GFLOP/s",
                    "%s %s rows=%d columns=%d inner=%d", table->name, kinds[kind], rows, columns,
                    inner);
        table->release(kernels, of.a);
        table->release(kernels, of.b);
        table->release(kernels, of.c);
    }
}

static void measure_training(bool smoke, exec_kernels *kernels, int block_count, int width,
                             int sequence_length)
{
    exec_model model = exec_model_default();
    model.block_count = smoke ? 1 : block_count;
    model.width = smoke ? 16 : width;
    model.sequence_length = sequence_length;
    training of;
    create(&of, &model, kernels);
    const bench_time time = bench_measure(smoke, iterate, &of);
    const double tokens = (double)MICROBATCHES * exec_model_row_count(&model);
    bench_print("cpu_training_tokens_per_s", tokens * 1e9 / time.median_ns, "tokens/s",
                "%s blocks=%d width=%d sequence=%d", kernels->table->name, block_count, width,
                sequence_length);
    destroy(&of);
}

static void measure(bool smoke, exec_kernels *kernels)
{
    measure_product(smoke, kernels, 256, 64, 64);
    measure_product(smoke, kernels, 256, 256, 64);
    measure_product(smoke, kernels, 1024, 1024, 256);
    measure_training(smoke, kernels, 8, 64, 64);
    measure_training(smoke, kernels, 6, 256, 256);
    kernels->table->close(kernels);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    error_message err = {0};
    exec_kernels *kernels = NULL;
    bench_require(exec_kernels_cpu_open(&kernels), &err);
    measure(smoke, kernels);
    return 0;
}
