/// Times of kernels by their shape: worked out by hand where tiles fill the GPU, and how they grow.
#include "models/cost/config.h"
#include "models/cost/kernel_time.h"
#include "tests/test_memory.h"

/// 100 multiprocessors of 10 FLOP per ns each, 1000 bytes per ns, nothing lost otherwise.
static model_hardware round_gpu(void)
{
    model_hardware hardware = {.gemm_efficiency = 1,
                               .attention_efficiency = 1,
                               .memory_efficiency = 1,
                               .memory_bytes_per_s = INT64_C(1000000000000),
                               .multiprocessor_count = 100};
    hardware.flop_per_s[MODEL_DTYPE_BFLOAT16] = INT64_C(1000000000000);
    return hardware;
}

static int64_t product_ns(const model_hardware *hardware, model_product product, model_pass pass)
{
    return model_products_ns(&product, 1, pass, MODEL_DTYPE_BFLOAT16, hardware);
}

TEST(whole_waves_of_tiles_take_their_flop_and_a_ramp)
{
    const model_hardware hardware = round_gpu();
    // 10 x 10 tiles of 128 x 256, 1000 inner steps: 2 * 128 * 256 * 1000 FLOP at 10 per ns.
    const model_product product = {.rows = 1280, .in = 1000, .out = 2560, .groups = 1, .flop = 1};

    assert_int_equal(product_ns(&hardware, product, MODEL_PASS_FORWARD), 6553600 + 1500);
}

TEST(one_tile_too_many_is_a_wave_more_unless_smaller_tiles_fit)
{
    const model_hardware hardware = round_gpu();
    model_product product = {.rows = 1280, .in = 1000, .out = 2560, .groups = 1, .flop = 1};
    const int64_t whole = product_ns(&hardware, product, MODEL_PASS_FORWARD);
    product.out += 256;
    const int64_t more = product_ns(&hardware, product, MODEL_PASS_FORWARD);

    assert_true(more > whole * 11 / 10); // a tenth more work
    assert_true(more < whole * 2);       // than a wave of the largest tiles
}

TEST(many_small_products_take_longer_than_one_of_their_work)
{
    model_hardware hardware = round_gpu();
    hardware.kernel_ns = 1000;
    const model_product one = {.rows = 8192, .in = 512, .out = 512, .groups = 1, .flop = 1};
    const model_product many = {.rows = 70, .in = 512, .out = 512, .groups = 117, .flop = 1};

    assert_true(product_ns(&hardware, many, MODEL_PASS_FORWARD) >
                product_ns(&hardware, one, MODEL_PASS_FORWARD));
    const int64_t kernels = product_ns(&hardware, many, MODEL_PASS_FORWARD);
    hardware.kernel_ns = 0;
    assert_int_equal(kernels - product_ns(&hardware, many, MODEL_PASS_FORWARD), 117 * 1000);
}

TEST(streams_and_the_host_count_their_kernels)
{
    model_hardware hardware = round_gpu();
    hardware.kernel_ns = 30;
    hardware.operator_ns = 100;
    hardware.launch_ns = 7;

    assert_int_equal(model_streams_ns(5000, 4, &hardware), 5 + 4 * 30);
    assert_int_equal(model_host_ns((model_launches){9, 3, 10}, &hardware), 3 * 100 + 10 * 7);
}

static int64_t flash_ns(const model_hardware *hardware, int key_dim, int value_dim, int tokens)
{
    const model_config config = {.head_count = 8, .query_key_dim = key_dim, .value_dim = value_dim};
    const model_shape shape = {.sequence_length = tokens, .dtype = MODEL_DTYPE_BFLOAT16};
    const model_work work = {.flop = INT64_C(1000000000000)};
    return model_attention_ns(&config, &shape, work, MODEL_PASS_FORWARD, hardware);
}

TEST(flash_is_slower_where_sequences_are_short_or_heads_narrow)
{
    model_hardware a100 = round_gpu();
    a100.flop_per_s[MODEL_DTYPE_BFLOAT16] = INT64_C(312000000000000);
    a100.multiprocessor_count = 108;
    const int64_t best = flash_ns(&a100, 128, 128, 16384);

    // 1.2 of its rate less 350 / (16384 + 350) of it, but no more than the GPU has.
    assert_close((double)best, 1e9 / 312, 1e-4);
    a100.attention_efficiency = 0.5;
    assert_close((double)flash_ns(&a100, 128, 128, 16384),
                 1e9 / 312 / 0.5 * (16384 + 350) / 16384 / 1.2, 1e-4);
    assert_true(flash_ns(&a100, 128, 128, 1024) > best);
    assert_true(flash_ns(&a100, 128, 64, 16384) > best);
    assert_true(flash_ns(&a100, 64, 64, 16384) > best);
}

/// Doubled pairs of 128 heads over 2 sequences of so many tokens, of widths and a window, on GB200.
static double cudnn_ms(int key_dim, int value_dim, int tokens, int window, model_pass pass)
{
    model_hardware gb200;
    const model_config config = {.head_count = 128,
                                 .query_key_dim = key_dim,
                                 .value_dim = value_dim,
                                 .sliding_window = window};
    const model_shape shape = {.sequence_length = tokens, .dtype = MODEL_DTYPE_BFLOAT16};
    const int64_t keys =
        window > 0 ? (int64_t)window * (2 * tokens - window) : (int64_t)tokens * tokens;
    const int64_t width =
        pass == MODEL_PASS_FORWARD ? key_dim + value_dim : 3 * key_dim + 2 * value_dim;
    require(model_hardware_open("gb200-nvl72", NULL, memory, &gb200, &why));
    return (double)model_attention_ns(&config, &shape, (model_work){keys * 256 * width, 1}, pass,
                                      &gb200) /
           1e6;
}

/// Measured by NVIDIA (cudnn-frontend, attention benchmarks of April 2026), a few ms at a time: of
/// a GPU that is busy for long 0.65 to 1 of it is taken, as of matrix products.
TEST(flash_is_as_far_from_cudnn_with_windows_as_without)
{
    static const struct {
        int key_dim, value_dim, tokens, window;
        double forward_ms, backward_ms;
    } measured[] = {{192, 128, 4096, 0, 0.977, 3.383},
                    {192, 128, 16384, 0, 13.103, 50.424},
                    {64, 64, 4096, 128, 0.210, 0.465},
                    {64, 64, 16384, 128, 0.822, 1.818}};
    for (size_t at = 0; at < sizeof measured / sizeof measured[0]; at++) {
        const double forward =
            cudnn_ms(measured[at].key_dim, measured[at].value_dim, measured[at].tokens,
                     measured[at].window, MODEL_PASS_FORWARD);
        const double backward =
            cudnn_ms(measured[at].key_dim, measured[at].value_dim, measured[at].tokens,
                     measured[at].window, MODEL_PASS_BACKWARD_INPUT);
        assert_true(measured[at].forward_ms > 0.65 * forward);
        assert_true(measured[at].forward_ms < forward);
        assert_true(measured[at].backward_ms > 0.65 * backward);
        assert_true(measured[at].backward_ms < 0.9 * backward);
    }
}

/// On Ampere FlashAttention-2 is what flash kernels are; on Hopper others are faster (320 TFLOP/s
/// against a share of 0.52 of 989, with long sequences).
TEST(flash_attention_2_has_not_become_faster_since_ampere)
{
    model_config config = {.query_key_dim = 128, .value_dim = 128};
    model_shape shape = {.sequence_length = 1 << 20, .dtype = MODEL_DTYPE_BFLOAT16};
    const model_work work = {.flop = INT64_C(1000000000000)};
    model_hardware gpu = round_gpu();
    int64_t ns[2][2];
    for (int is_hopper = 0; is_hopper < 2; is_hopper++) {
        gpu.flop_per_s[MODEL_DTYPE_BFLOAT16] = INT64_C(1000000000000) * (is_hopper ? 989 : 312);
        gpu.multiprocessor_count = is_hopper ? 132 : 108;
        gpu.attention_efficiency = is_hopper ? 0.52 : 0.6;
        for (int is_second = 0; is_second < 2; is_second++) {
            shape.attention = is_second ? MODEL_ATTENTION_FLASH_2 : MODEL_ATTENTION_FLASH;
            ns[is_hopper][is_second] =
                model_attention_ns(&config, &shape, work, MODEL_PASS_FORWARD, &gpu);
        }
    }
    assert_int_equal(ns[0][0], ns[0][1]);
    assert_close((double)ns[1][1] / (double)ns[1][0], 0.52 * 989 / 320, 0.001);
}

/// cuDNN on GB200 takes 1.78 times as long for a FLOP with 1024 tokens as with 16384 (heads of 64,
/// causal: 627 and 1115 TFLOP/s).
TEST(flash_loses_more_on_multiprocessors_that_multiply_faster)
{
    model_hardware gpu = round_gpu();
    gpu.flop_per_s[MODEL_DTYPE_BFLOAT16] = INT64_C(312000000000000);
    gpu.multiprocessor_count = 108;
    const double a100_loss =
        (double)flash_ns(&gpu, 64, 64, 1024) / (double)flash_ns(&gpu, 64, 64, 16384);
    gpu.flop_per_s[MODEL_DTYPE_BFLOAT16] = INT64_C(2500000000000000);
    gpu.multiprocessor_count = 148;
    const double loss =
        (double)flash_ns(&gpu, 64, 64, 1024) / (double)flash_ns(&gpu, 64, 64, 16384);

    assert_close(loss, 1.78, 0.1);
    assert_true(a100_loss < loss);
}

static void total_of(const char *name, int64_t total, int64_t active)
{
    model_config config;
    require(model_config_open(name, NULL, memory, &config, &why));
    assert_int_equal(model_total_parameters(&config) / 10000000, total);
    assert_int_equal(model_active_parameters(&config) / 10000000, active);
}

/// In units of 10^7: 116.83, 31.6, 120.6, 30.5, 235.1, 235.7 and 671 and 1026 billion are
/// published; of active ones embeddings are counted here, as some of the publishers do not.
TEST(models_of_today_have_their_published_parameters)
{
    total_of("gpt-oss-120b", 11682, 571);
    total_of("gpt-oss-20b", 2091, 418);
    total_of("nemotron-3-nano", 3157, 358);
    total_of("nemotron-3-super", 12066, 1277);
    total_of("qwen3-30b-a3b", 3053, 335);
    total_of("qwen3-235b-a22b", 23509, 2219);
    total_of("deepseek-v2", 23574, 2137);
    total_of("deepseek-v3", 67102, 3755);
    total_of("kimi-k2", 102640, 3286);
    total_of("llama-3-70b", 7055, 7055);
    total_of("llama-3.1-405b", 40585, 40585);
}

TEST(layers_of_a_hybrid_have_what_its_pattern_says)
{
    model_config config;
    assert_ok(model_config_open("nemotron-3-nano", NULL, memory, &config, NULL));
    const model_config mamba = model_config_layer(&config, 0);
    const model_config experts = model_config_layer(&config, 1);
    const model_config attention = model_config_layer(&config, 5);

    assert_true(mamba.mamba_head_count == 64 && mamba.head_count == 0 && !mamba.is_moe[0]);
    assert_true(experts.mamba_head_count == 0 && experts.head_count == 0 && experts.is_moe[1]);
    assert_true(attention.head_count == 32 && attention.mamba_head_count == 0);
    assert_int_equal(model_config_block_count(&mamba, 0), 1);
    const model_shape shape = {
        .sequence_length = 4096, .microbatch_size = 1, .dtype = MODEL_DTYPE_BFLOAT16};
    const model_layer_work work = model_layer_work_of(&config, &shape, 0, MODEL_PASS_FORWARD);
    // 4096 tokens meet 2688 x (2 x 4096 + 2 x 1024 + 64) and 4096 x 2688 entries.
    assert_int_equal(work.projection.flop, INT64_C(2) * 4096 * 2688 * (10304 + 4096));
    assert_int_equal(work.mlp.flop, 0);
}

TEST(latent_experts_take_compressed_rows)
{
    model_config config;
    const model_shape shape = {
        .sequence_length = 4096, .microbatch_size = 1, .dtype = MODEL_DTYPE_BFLOAT16};
    require(model_config_open("nemotron-3-super", NULL, memory, &config, &why));
    const model_layer_work work = model_layer_work_of(&config, &shape, 1, MODEL_PASS_FORWARD);
    // Router; 22 experts of 2 matrices; into 1024 numbers and back; the shared expert's 2.
    const int64_t weights =
        4096 * 512 + INT64_C(22) * 2 * 1024 * 2688 + 2 * 4096 * 1024 + INT64_C(2) * 4096 * 5376;
    assert_int_equal(work.mlp.flop, 2 * 4096 * weights);
    assert_int_equal(model_expert_row_bytes(&config, &shape), 4096 * 1024 * 2);
    assert_int_equal(model_message_bytes(&config, &shape), 4096 * 4096 * 2);
    assert_int_equal(model_layer_expert_parameters(&config, 1), INT64_C(512) * 2 * 1024 * 2688);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
