/// What a model and its mechanism may be told: every number outside its limits is named.
#include "exec/model/model.h"
#include "tests/test.h"

#include <math.h>

static exec_model with(exec_mechanism mechanism)
{
    exec_model model = exec_model_default();
    model.mechanism = mechanism;
    return model;
}

static void refused(const exec_model *model, const char *message)
{
    assert_fails(exec_model_check(model, &why), STATUS_INVALID, message);
}

TEST(defaults_are_within_limits)
{
    for (int mechanism = 0; mechanism < EXEC_MECHANISM_COUNT; mechanism++) {
        const exec_model model = with((exec_mechanism)mechanism);
        assert_ok(exec_model_check(&model, NULL));
    }
    const exec_model model = exec_model_default();
    assert_int_equal(exec_model_hidden_width(&model), 256);
}

TEST(sizes_and_settings_of_the_optimizer_have_limits)
{
    exec_model model = with(EXEC_DENSE);

    model.mechanism = EXEC_MECHANISM_COUNT;
    refused(&model, "mechanism 7 is outside [0, 6]");
    model.mechanism = EXEC_DENSE;
    model.clip_norm = INFINITY;
    refused(&model, "clip_norm inf is outside [0, inf)");
    model.beta2 = 1;
    refused(&model, "beta2 1 is outside [0, 1)");
    model.learning_rate = NAN;
    refused(&model, "learning_rate nan is outside [0, 1000)");
    model.learning_rate = -1;
    refused(&model, "learning_rate -1 is outside [0, 1000)");
    model.rotary_base = 1e12;
    refused(&model, "rotary_base 1e+12 is outside [0, 1e+12)");
    model.head_count = 5;
    refused(&model, "head_count 5 does not divide width 64");
    model.width = 0;
    refused(&model, "width 0 is outside [1, 16384]");
    model.block_count = 0;
    refused(&model, "block_count 0 is outside [1, 4096]");
}

TEST(numbers_of_experts_have_limits)
{
    exec_model model = with(EXEC_MOE);
    model.width = 16; // hidden_width 64

    model.moe.sinkhorn_rounds = 1001;
    refused(&model, "sinkhorn_rounds 1001 is outside [0, 1000]");
    model.moe.sinkhorn_rounds = 8;
    assert_ok(exec_model_check(&model, NULL));
    assert_int_equal(exec_model_expert_width(&model), 32);
    model.moe.top_k = 9;
    refused(&model, "top_k 9 is outside [1, expert_count 8]");
    model.moe.expert_count = 0;
    refused(&model, "expert_count 0 is outside [1, 256]");
    model.moe = (exec_moe_options){.expert_count = 8, .top_k = 3};
    refused(&model, "hidden_width 64 is no multiple of top_k 3, and expert_width is not given");
    model.moe.expert_width = 20;
    assert_ok(exec_model_check(&model, NULL));
    assert_int_equal(exec_model_expert_width(&model), 20);
    model.moe.expert_parallel = 3;
    refused(&model, "expert_parallel 3 does not divide the 8 experts");
    model.moe.expert_width = 65537;
    refused(&model, "expert_width 65537 is outside [0, 65536]");
    model.moe.expert_width = 20;
    model.moe.balance = NAN;
    refused(&model, "balance nan is negative or not finite");
}

TEST(numbers_of_chosen_rows_have_limits)
{
    exec_model model = with(EXEC_MOD);

    model.mod.every = 0;
    refused(&model, "every 0 is below 1");
    model.mod.capacity_ratio = 0;
    refused(&model, "capacity_ratio 0 is outside (0, 1]");
    model = with(EXEC_EARLY_EXIT);
    model.early_exit.first_exit = -1;
    refused(&model, "first_exit -1 is negative");
    model.early_exit.settle_iterations = -2;
    refused(&model, "settle_iterations -2 is negative");
    model = with(EXEC_EARLY_EXIT);
    model.early_exit.threshold = 1.5;
    refused(&model, "threshold 1.5 is outside (-1, 1]");
    model.early_exit = exec_early_exit_options_default(EXEC_EXIT_CLASSIFIER);
    assert_ok(exec_model_check(&model, NULL));
    model.early_exit.target_cosine = -1;
    refused(&model, "target_cosine -1 is outside (-1, 1]");
    model.early_exit.threshold = 0;
    refused(&model, "threshold 0 is outside (0, 1]");
    model.early_exit.measure = EXEC_EXIT_MEASURE_COUNT;
    refused(&model, "measure 4 is outside [0, 3]");
}

TEST(numbers_of_pruning_have_limits)
{
    exec_model model = with(EXEC_PRUNING);

    model.pruning.start_iteration = -1;
    refused(&model, "start_iteration -1 is negative");
    model = with(EXEC_PRUNING);
    model.pruning.end_iteration = 30;
    refused(&model, "end_iteration 30 is not after start_iteration 30");
    model = with(EXEC_PRUNING);
    model.pruning.interval = 0;
    refused(&model, "interval 0 is below 1");
    model.pruning.interval = 7;
    refused(&model, "interval 7 does not divide the 40 iterations from start_iteration to "
                    "end_iteration");
    model = with(EXEC_PRUNING);
    model.pruning.final_sparsity = 1.5;
    refused(&model, "final_sparsity 1.5 is outside [0, 1]");
    model = with(EXEC_PRUNING);
    model.pruning.initial_sparsity = 0.95;
    refused(&model, "initial_sparsity 0.95 is outside [0, final_sparsity 0.9]");
    model.pruning.csr_from = 1.5;
    refused(&model, "csr_from 1.5 is outside [0, 1]");
}

TEST(numbers_of_freezing_have_limits)
{
    exec_model model = with(EXEC_FREEZING);

    model.freezing.largest_share = 1;
    refused(&model, "largest_share 1 is outside [0, 1)");
    model.freezing.patience = 0;
    refused(&model, "patience 0 is below 1");
    model.freezing.tolerance = 0;
    refused(&model, "tolerance 0 is outside (0, 1]");
    model.freezing.start_iteration = -1;
    refused(&model, "start_iteration -1 is negative");
    model.freezing.interval = 0;
    refused(&model, "interval 0 is below 1");
}

TEST(numbers_of_sparse_attention_have_limits)
{
    exec_model model = with(EXEC_SPARSE_ATTENTION);

    model.sparse_attention.block_rows = 17;
    refused(&model, "block_rows 17 is none of 0, 16, 32, 64");
    model.sparse_attention.affinity = -1;
    refused(&model, "affinity -1 is negative or not finite");
    model.sparse_attention.bit_count = 9;
    refused(&model, "bit_count 9 is outside [1, 8]");
    model.sparse_attention.order = 2;
    refused(&model, "order 2 is outside [0, 1]");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
