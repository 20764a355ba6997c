#include "models/cost/kernel_time.h"

#include "models/cost/saturating.h"

#include <math.h>

#define COST_MAX (INT64_MAX / 4) // what sums over stages still hold

static int64_t whole_ns(double ns)
{
    return ns < (double)COST_MAX ? (int64_t)round(ns) : COST_MAX;
}

int64_t model_roofline_ns(model_work work, double flop_per_s, double bytes_per_s)
{
    if (work.flop == INT64_MAX || work.bytes == INT64_MAX) return COST_MAX; // counts that saturated
    const double compute_s = (double)work.flop / flop_per_s;
    const double memory_s = (double)work.bytes / bytes_per_s;
    return whole_ns((compute_s > memory_s ? compute_s : memory_s) * 1e9);
}

static double rate_of(const model_hardware *hardware, model_dtype dtype)
{
    return (double)hardware->flop_per_s[dtype] * hardware->gemm_efficiency;
}

/// Tensor cores before Blackwell's sum products of float8 in fewer than 32 bits. Frameworks let
/// them in F; in B and W sums are moved into registers of 32 bits on the way, which takes 1.1
/// to 1.2 times as long. Source: Transformer Engine, recipes (use_split_accumulator); torchao,
/// Float8GemmConfig (use_fast_accum), and pytorch/ao #2377 for the times on H100.
static double accumulation_factor(const model_hardware *hardware, model_dtype dtype,
                                  model_pass pass)
{
    const bool is_blackwell = hardware->flop_per_s[MODEL_DTYPE_NVFLOAT4] > 0;
    const bool is_split = dtype == MODEL_DTYPE_FLOAT8 && pass != MODEL_PASS_FORWARD;
    return is_split && !is_blackwell ? 1.15 : 1;
}

static double bandwidth_of(const model_hardware *hardware)
{
    return (double)hardware->memory_bytes_per_s * hardware->memory_efficiency;
}

/// A tile of an output, and the share of a multiprocessor's rate that it reaches: smaller ones read
/// more operands for each product.
typedef struct tile_shape {
    double rows;
    double columns;
    double efficiency;
} tile_shape;

/// Tiles of cuBLAS and CUTLASS on multiprocessors with 164 KiB and more of shared memory.
static const tile_shape tiles[] = {{128, 256, 1.0}, {256, 128, 1.0}, {128, 128, 0.92},
                                   {64, 128, 0.75}, {128, 64, 0.75}, {64, 64, 0.55}};

enum { SPLIT_MAX = 8 };

/// Time that a multiprocessor loses in filling the pipeline of a tile and in writing it, however
/// fast it multiplies: two passes through memory of some 0.7 us.
static const double tile_ramp_ns = 1500;

/// Compute time of groups products m x n with k inner steps, cut into tiles, the inner steps split
/// into parts.
static double tiled_ns(double m, double n, double k, double groups, tile_shape tile, double parts,
                       double flop_per_ns, double multiprocessors)
{
    const double count = ceil(m / tile.rows) * ceil(n / tile.columns) * groups * parts;
    const double waves = ceil(count / multiprocessors);
    const double tile_ns = 2 * tile.rows * tile.columns * (k / parts) * multiprocessors /
                           (flop_per_ns * tile.efficiency);
    return waves * (tile_ns + tile_ramp_ns);
}

/// The best tile, with the inner steps split where tiles are too few for all multiprocessors. Parts
/// are summed in memory, in 32 bits.
static double best_tiled_ns(double m, double n, double k, double groups, double flop_per_ns,
                            const model_hardware *hardware)
{
    const double bytes_per_ns = bandwidth_of(hardware) / 1e9;
    double best = INFINITY;
    for (size_t tile = 0; tile < sizeof tiles / sizeof tiles[0]; tile++) {
        for (int parts = 1; parts <= SPLIT_MAX; parts *= 2) {
            const double sums = parts > 1 ? 8.0 * parts * m * n * groups / bytes_per_ns : 0;
            const double ns = tiled_ns(m, n, k, groups, tiles[tile], parts, flop_per_ns,
                                       hardware->multiprocessor_count);
            best = fmin(best, ns + sums);
        }
    }
    return best;
}

/// Each group is a kernel of its own (Transformer Engine, multi_stream_cublas_gemm). On H100 the
/// same FLOP in 16 groups took 22 us longer than in 8: 554 TFLOP/s instead of 628 (its pull request
/// 2045).
static double product_ns(const model_product *product, model_pass pass, double flop_per_ns,
                         const model_hardware *hardware)
{
    const double rows = (double)product->rows;
    const double in = (double)product->in;
    const double out = (double)product->out;
    const double groups = (double)product->groups;
    double compute = 0;
    if (pass == MODEL_PASS_FORWARD) {
        compute = best_tiled_ns(rows, out, in, groups, flop_per_ns, hardware);
    } else if (pass == MODEL_PASS_BACKWARD_INPUT) {
        compute = best_tiled_ns(rows, in, out, groups, flop_per_ns, hardware);
    } else {
        compute = best_tiled_ns(in, out, rows, groups, flop_per_ns, hardware);
    }
    const double memory = (double)product->bytes[pass] * 1e9 / bandwidth_of(hardware);
    return fmax(compute, memory) + groups * (double)hardware->kernel_ns;
}

int64_t model_products_ns(const model_product *products, int count, model_pass pass,
                          model_dtype dtype, const model_hardware *hardware)
{
    const double rate = rate_of(hardware, dtype) / accumulation_factor(hardware, dtype, pass);
    model_work together = {0, 0};
    double ns = 0;
    for (int product = 0; product < count; product++) {
        together.flop = saturating_add(together.flop, products[product].flop);
        together.bytes = saturating_add(together.bytes, products[product].bytes[pass]);
        if (hardware->multiprocessor_count > 0 && products[product].rows > 0) {
            ns += product_ns(&products[product], pass, rate / 1e9, hardware);
        }
    }
    if (hardware->multiprocessor_count == 0 || together.flop == INT64_MAX ||
        together.bytes == INT64_MAX) {
        return model_roofline_ns(together, rate, bandwidth_of(hardware));
    }
    return whole_ns(ns);
}

int64_t model_streams_ns(int64_t bytes, int64_t kernel_count, const model_hardware *hardware)
{
    const int64_t ns = model_roofline_ns((model_work){0, bytes}, 1, bandwidth_of(hardware));
    return ns < COST_MAX ? ns + kernel_count * hardware->kernel_ns : ns;
}

/// What the kernels of a state-space mixer reach of what flash kernels do, and of the bandwidth of
/// streams: five kernels take 1.5 to 2.5 times as long as one that is made of them all (PyTorch,
/// Accelerating Mamba2 with Kernel Fusion, 2026), and that one is taken to reach half.
static const double mamba_share = 0.26;

/// What a multiprocessor reaches in FlashAttention-2, F and B together, with long sequences and
/// heads of 128: its instructions are those of Ampere, which have not become faster with Hopper's
/// others. Source: FlashAttention-3 (arXiv 2407.08608), figures 5 and 6, H100, where cuDNN has 500
/// TFLOP/s.
static const double flash_2_flop_per_s = 320e12 / 132;

/// Of the rate that F and B have together: F does 1.2 to 1.35 times as many FLOP in its time as B,
/// with windows 0.9 to 1.16 times as many. Source: cuDNN on H200, GB200 and GB300, heads of 64 to
/// 192, 2048 to 16384 tokens, windows of 128 and 1024 (cudnn-frontend, attention benchmarks).
static const double forward_share = 1.2;
static const double backward_share = 0.935;

/// What flash kernels reach of the rate that they have with long sequences and heads of 128. What
/// lies beside products costs as much as so many of a multiprocessor's products: the softmax of a
/// pair however narrow the heads, the ends of tiles however few keys a row meets: with a window no
/// more than in a sequence of twice its length. It has not become faster as products have: of A100,
/// H100 and B200 about with the power of 0.6 of their rates.
/// Source: FlashAttention-2, figure 5 (A100); cuDNN and FlashAttention-4 on H100 and GB200, heads
/// of 64, 128 and 192, 1024 to 16384 tokens (flash-attention, pull request 2605; pith-train, 3);
/// windows of 128 and 1024 on H200, GB200 and GB300 (cudnn-frontend, attention benchmarks).
static double flash_share(const model_config *config, const model_shape *shape, model_pass pass,
                          const model_hardware *hardware)
{
    const double a100_flop_per_s = 312e12 / 108;
    double flop_per_s = (double)hardware->flop_per_s[model_dtype_wide(shape->dtype)] /
                        hardware->multiprocessor_count;
    if (shape->attention == MODEL_ATTENTION_FLASH_2) {
        flop_per_s = fmin(flop_per_s, flash_2_flop_per_s / 0.6); // A100's has 0.6 of its rate
    }
    const double pace = pow(flop_per_s / a100_flop_per_s, 0.6);
    const double beside_tokens = 350 * pace;
    const double beside_width = 40 * pace;
    const double window = config->sliding_window > 0 ? 2.0 * config->sliding_window : INFINITY;
    const double length = fmin(shape->sequence_length, window);
    const double width = (config->query_key_dim + config->value_dim) / 2.0;
    const double by_length = length / (length + beside_tokens);
    const double by_width = fmin(width / (width + beside_width) * (128 + beside_width) / 128, 1);
    const bool is_windowed = length < shape->sequence_length;
    if (pass == MODEL_PASS_FORWARD) {
        return by_length * by_width * (is_windowed ? 1 : forward_share);
    }
    // B pads values that are narrower than keys.
    const double by_padding = width / fmax(config->query_key_dim, config->value_dim);
    return by_length * by_width * by_padding * (is_windowed ? 1 : backward_share);
}

/// The products of unfused attention over the heads of a GPU, 2 in F and 4 in B, and the streams
/// over scores beside them.
static double unfused_ns(const model_config *config, const model_shape *shape, model_work work,
                         model_pass pass, const model_hardware *hardware)
{
    const model_dtype dtype = model_dtype_wide(shape->dtype);
    const double flop_per_ns = rate_of(hardware, dtype) / 1e9;
    const model_config slice = model_gpu_slice(config, &shape->parallel);
    const double heads = (double)slice.head_count * shape->microbatch_size;
    const double tokens = shape->sequence_length;
    const double width = (slice.query_key_dim + slice.value_dim) / 2.0;
    const double context = model_parallel_filled(shape->parallel).context;
    const double scores =
        best_tiled_ns(tokens / context, tokens, width, heads, flop_per_ns, hardware);
    const double values =
        best_tiled_ns(tokens / context, width, tokens, heads, flop_per_ns, hardware);
    const double count = pass == MODEL_PASS_FORWARD ? 1 : 2;
    return count * (scores + values) + (double)work.bytes * 1e9 / bandwidth_of(hardware) +
           (double)hardware->kernel_ns * 2 * count;
}

int64_t model_attention_ns(const model_config *config, const model_shape *shape, model_work work,
                           model_pass pass, const model_hardware *hardware)
{
    const model_dtype dtype = model_dtype_wide(shape->dtype);
    double rate = (double)hardware->flop_per_s[dtype] * hardware->attention_efficiency;
    const bool is_idle = work.flop == 0 || work.flop == INT64_MAX || work.bytes == INT64_MAX;
    if (is_idle || hardware->multiprocessor_count == 0) {
        return model_roofline_ns(work, rate, bandwidth_of(hardware));
    }
    if (config->mamba_head_count > 0) {
        return model_roofline_ns(work, rate * mamba_share, bandwidth_of(hardware) * mamba_share);
    }
    if (shape->attention == MODEL_ATTENTION_UNFUSED) {
        return whole_ns(unfused_ns(config, shape, work, pass, hardware));
    }
    if (shape->attention == MODEL_ATTENTION_FLASH_2) {
        rate = fmin(rate, flash_2_flop_per_s * hardware->multiprocessor_count);
    }
    const double reached = rate * flash_share(config, shape, pass, hardware);
    return model_roofline_ns(work, fmin(reached, (double)hardware->flop_per_s[dtype]),
                             bandwidth_of(hardware));
}

int64_t model_host_ns(model_launches launches, const model_hardware *hardware)
{
    return launches.operator_count * hardware->operator_ns +
           launches.library_count * hardware->launch_ns;
}
