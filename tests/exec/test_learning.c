/// Balancing does not touch learning: loss and gradient norm of every iteration and the state of
/// all layers at the end have the same bits however the layers lie on ranks, in which order ops
/// run, and whatever moves in mid-run. Bits are compared between runs of one program, never with
/// stored ones.
#include "tests/exec/learning_run.h"

enum { ITERATIONS = 8 };

static const learning_way ways[] = {
    {.name = "gpipe, 2 even stages", .schedule = "gpipe", .plans = {{-1, 2, {0, 4, 8}, {0, 1}}}},
    {.name = "1f1b, 4 uneven stages",
     .schedule = "1f1b",
     .plans = {{-1, 4, {0, 1, 5, 6, 8}, {0, 1, 2, 3}}}},
    {.name = "zb-h1, 8 stages",
     .schedule = "zb-h1",
     .plans = {{-1, 8, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {0, 1, 2, 3, 4, 5, 6, 7}}}},
    {.name = "interleaved-1f1b, 2 ranks of 2 stages",
     .schedule = "interleaved-1f1b",
     .plans = {{-1, 2, {0, 2, 3, 6, 8}, {0, 1}}, {3, 2, {0, 1, 4, 5, 8}, {1, 0}}}},
    {.name = "zb-v-hand, 2 ranks folded, the turn and both ends move",
     .schedule = "zb-v-hand",
     .plans = {{-1, 2, {0, 2, 4, 6, 8}, {0, 1}}, {2, 2, {0, 1, 3, 5, 8}, {1, 0}}}},
    {.name = "v-half, 4 ranks to 2 and back",
     .schedule = "v-half",
     .plans = {{-1, 4, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {0, 1, 2, 3}},
               {2, 2, {0, 2, 3, 5, 8}, {0, 2}},
               {4, 4, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {3, 1, 0, 2}}}},
    {.name = "dualpipe-v, 2 ranks folded, pairs overlap",
     .schedule = "dualpipe-v",
     .plans = {{-1, 2, {0, 1, 4, 6, 8}, {0, 1}}}},
    {.name = "1f1b-v, 2 ranks folded, uneven",
     .schedule = "1f1b-v",
     .plans = {{-1, 2, {0, 3, 4, 5, 8}, {0, 1}}}},
    {.name = "1f1b, three migrations",
     .schedule = "1f1b",
     .plans = {{-1, 4, {0, 2, 4, 6, 8}, {0, 1, 2, 3}},
               {1, 4, {0, 1, 3, 7, 8}, {0, 1, 2, 3}},
               {2, 4, {0, 3, 4, 5, 8}, {0, 1, 2, 3}},
               {5, 4, {0, 1, 2, 3, 8}, {3, 1, 0, 2}}}},
    {.name = "zb-h1, 4 ranks to 2 to 1 and back",
     .schedule = "zb-h1",
     .plans = {{-1, 4, {0, 2, 4, 6, 8}, {0, 1, 2, 3}},
               {1, 2, {0, 5, 8}, {0, 2}},
               {2, 1, {0, 8}, {2}},
               {4, 2, {0, 4, 8}, {2, 1}},
               {5, 4, {0, 1, 3, 6, 8}, {0, 1, 2, 3}}}},
};
enum { WAY_COUNT = sizeof ways / sizeof ways[0] };

static learning_run learn(const exec_model *model, const learning_way *way)
{
    learning_run run = {.model = model, .way = way, .iteration_count = ITERATIONS};
    learning_execute(&run);
    return run;
}

static void assert_ways_learn_the_same(const exec_model *model, int way_count)
{
    const learning_run one = learn(model, &learning_one_rank);
    for (int index = 0; index < way_count; index += TEST_SHARE) {
        const learning_run other = learn(model, &ways[index]);
        learning_assert_same(&one, &other);
        assert_true((other.migrated_bytes > 0) == (ways[index].plans[1].rank_count > 0));
    }
}

TEST(plans_and_migrations_learn_the_same_with_every_mechanism)
{
    for (int mechanism = 0; mechanism < EXEC_MECHANISM_COUNT; mechanism++) {
        const exec_model model = learning_model((exec_mechanism)mechanism);
        assert_ways_learn_the_same(&model, WAY_COUNT);
    }
    exec_model model = learning_model(EXEC_SPARSE_ATTENTION);
    model.sparse_attention.order = EXEC_ROWS_AS_TEXT;
    assert_ways_learn_the_same(&model, 4);
}

/// What early exit learns to decide by: heads and classifiers that move with their blocks.
static exec_model exit_model(exec_exit_measure measure)
{
    exec_model model = learning_model(EXEC_EARLY_EXIT);
    model.early_exit = exec_early_exit_options_default(measure);
    model.early_exit.threshold = measure == EXEC_EXIT_CLASSIFIER ? 0.5 : 0.01;
    model.early_exit.target_cosine = 0.95;
    model.early_exit.settle_iterations = 0;
    return model;
}

TEST(every_measure_of_confidence_learns_the_same_under_every_plan)
{
    for (int measure = EXEC_EXIT_SOFTMAX; measure < EXEC_EXIT_MEASURE_COUNT; measure++) {
        exec_model model = exit_model((exec_exit_measure)measure);
        learning_way twice = ways[WAY_COUNT - 1];
        learning_way alone = learning_one_rank;
        twice.replica_count = alone.replica_count = 2;
        const learning_run one = learn(&model, &learning_one_rank);
        for (int index = 0; index < WAY_COUNT; index += TEST_SHARE) {
            const learning_run other = learn(&model, &ways[index]);
            learning_assert_same(&one, &other);
        }
        const learning_run two = learn(&model, &alone);
        const learning_run replicated = learn(&model, &twice);
        learning_assert_same(&two, &replicated);
        model.early_exit.threshold = 1;
        const learning_run stayed = learn(&model, &learning_one_rank);
        assert_true(stayed.loss[ITERATIONS - 1] != one.loss[ITERATIONS - 1]); // tokens did leave
    }
}

/// Blocks that turn to compressed rows at the second of three steps, or at the first, on one rank,
/// and while plans change and replicas are summed: the bits are those of masks.
TEST(compressed_rows_learn_what_dense_products_do)
{
    static const double csr_from[] = {0.5, 0.01};
    const exec_model masked = learning_model(EXEC_PRUNING);
    exec_model compressed = masked;
    for (int replica_count = 1; replica_count <= 2; replica_count++) {
        learning_way way = learning_one_rank;
        way.replica_count = replica_count;
        const learning_run one = learn(&masked, &way);
        for (int from = 0; from < 2; from++) {
            compressed.pruning.csr_from = csr_from[from];
            const learning_run same = learn(&compressed, &way);
            learning_assert_same(&one, &same);
            assert_true(same.state_bytes < one.state_bytes / 3); // a fifth of the weights is left
            for (int index = 0; index < WAY_COUNT; index += TEST_SHARE) {
                if (replica_count > 1 && ways[index].plans[1].rank_count == 0) continue;
                learning_way other_way = ways[index];
                other_way.replica_count = replica_count;
                const learning_run other = learn(&compressed, &other_way);
                learning_assert_same(&one, &other);
            }
        }
    }
}

static void assert_replicas_learn_the_same(exec_mechanism mechanism)
{
    const exec_model model = learning_model(mechanism);
    learning_way way = learning_one_rank;
    way.replica_count = 2;
    const learning_run one = learn(&model, &way);
    for (int index = 0; index < WAY_COUNT; index += TEST_SHARE) {
        if (ways[index].plans[1].rank_count == 0) continue;
        learning_way doubled = ways[index];
        doubled.replica_count = 2;
        const learning_run other = learn(&model, &doubled);
        learning_assert_same(&one, &other);
    }
}

/// With two replicas gradients are summed in another order than with one, so that runs at one
/// number of replicas are compared.
TEST(two_replicas)
{
    for (int mechanism = 0; mechanism < EXEC_MECHANISM_COUNT; mechanism++) {
        assert_replicas_learn_the_same((exec_mechanism)mechanism);
    }
}

/// Whoever comes first: gradients are added in the order of replicas.
TEST(gradients_that_are_reduced_while_ops_run_are_the_same)
{
    const exec_mechanism mechanisms[] = {EXEC_DENSE, EXEC_FREEZING, EXEC_EARLY_EXIT};
    for (size_t index = 0; index < sizeof mechanisms / sizeof mechanisms[0]; index++) {
        const exec_model model = learning_model(mechanisms[index]);
        for (int replicas = 2; replicas <= 4; replicas += 2) {
            learning_way way = learning_one_rank;
            way.replica_count = replicas;
            const learning_run one = learn(&model, &way);
            for (int each = 0; each < WAY_COUNT; each++) {
                way = ways[each];
                if (way.plans[1].rank_count == 0 || learning_chunk_count(&way) * replicas > 4) {
                    continue; // there are four microbatches
                }
                way.replica_count = replicas;
                way.overlap = each % 2 == 0 ? BAL_REDUCTION_STAGE : BAL_REDUCTION_BACKWARD;
                const learning_run hidden = learn(&model, &way);
                learning_assert_same(&one, &hidden);
            }
        }
    }
}

TEST(replicas_that_share_experts_refuse_to_hide_the_reduction)
{
    exec_model model = learning_model(EXEC_MOE);
    learning_way way = learning_one_rank;
    learning_run run = {.model = &model, .way = &way, .iteration_count = 2};
    way.replica_count = model.moe.expert_parallel = 2;
    way.overlap = BAL_REDUCTION_STAGE;
    assert_fails_naming(learning_try(&run, &why), STATUS_UNSUPPORTED,
                        "reduction_overlap 'stage': replicas that share experts reduce gradients "
                        "after the pipeline");
}

/// Experts that ranks share learn what they learn where each rank has all, to the last bit, under
/// every plan and through migrations, in which less is moved.
static void assert_shared_experts_learn_the_same(exec_model model, int replicas, int shared)
{
    learning_way alone = learning_one_rank;
    alone.replica_count = replicas;
    const learning_run all = learn(&model, &alone);
    model.moe.expert_parallel = shared;
    const learning_run one = learn(&model, &alone);
    learning_assert_same_losses(&all, &one);
    for (int index = 0; index < WAY_COUNT; index += TEST_SHARE) {
        learning_way way = ways[index];
        if (way.plans[1].rank_count == 0 || learning_chunk_count(&way) * replicas > 4) continue;
        way.replica_count = replicas;
        const learning_run moved = learn(&model, &way);
        learning_assert_same(&one, &moved);
        model.moe.expert_parallel = 1;
        assert_true(moved.migrated_bytes < learn(&model, &way).migrated_bytes);
        model.moe.expert_parallel = shared;
    }
}

TEST(shared_experts)
{
    exec_model model = learning_model(EXEC_MOE);
    assert_shared_experts_learn_the_same(model, 2, 2);
    assert_shared_experts_learn_the_same(model, 4, 2); // two ranks have the same experts
    assert_shared_experts_learn_the_same(model, 4, 4);
    model.recomputes = true;
    assert_shared_experts_learn_the_same(model, 2, 2);
    model.is_gated = model.lacks_mlp_bias = true;
    model.moe.balance = 0;
    assert_shared_experts_learn_the_same(model, 2, 2);
}

TEST(experts_are_shared_by_replicas_that_there_are)
{
    exec_model model = learning_model(EXEC_MOE);
    learning_way way = learning_one_rank;
    learning_run run = {.model = &model, .way = &way, .iteration_count = 1};
    way.replica_count = 4;
    model.moe.expert_parallel = 3;
    assert_fails_naming(learning_try(&run, &why), STATUS_INVALID,
                        "expert_parallel 3 does not divide the 4 experts");
    way.replica_count = 1;
    model.moe.expert_parallel = 2;
    assert_fails_naming(learning_try(&run, &why), STATUS_INVALID,
                        "expert_parallel 2 does not divide the 1 replicas");
}

/// A device whose second rank has no more memory in the middle of an iteration.
static const exec_device_table *whole_table;

static status play_until_out_of_memory(exec_device *device, const exec_step *step,
                                       const exec_payload *input, exec_payload *output,
                                       int64_t *duration_ns, error_message *err)
{
    if (step->op.kind == OP_BACKWARD && step->op.microbatch == 1) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    return whole_table->play(device, step, input, output, duration_ns, err);
}

static status create_failing(void *context, int world_rank, exec_device **device,
                             error_message *err)
{
    static exec_device_table failing;
    TRY(exec_training_device_create(context, world_rank, device, err));
    if (world_rank != 1) return STATUS_OK;
    whole_table = (*device)->table;
    failing = *whole_table;
    failing.play = play_until_out_of_memory;
    (*device)->table = &failing;
    return STATUS_OK;
}

/// Rank 0 waits for it inside an op.
TEST(a_rank_that_fails_ends_those_who_wait_for_its_experts)
{
    exec_model model = learning_model(EXEC_MOE);
    learning_way way = learning_one_rank;
    way.replica_count = model.moe.expert_parallel = 2;
    exec_training_device device = {
        .model = &model, .text = &learning_text, .replica_rank_count = 1, .counts_cpu_time = true};
    learning_run run = {.model = &model,
                        .way = &way,
                        .iteration_count = 1,
                        .devices = {.context = &device, .create = create_failing}};

    assert_fails(learning_try(&run, &why), STATUS_NO_MEMORY,
                 "rank 1, iteration 0, BW1 of stage 0: out of memory");
}

TEST(replicas_learn_from_texts_of_their_own)
{
    const exec_model model = learning_model(EXEC_DENSE);
    learning_way way = learning_one_rank;
    way.replica_count = 2;

    const learning_run one = learn(&model, &learning_one_rank);
    const learning_run two = learn(&model, &way);

    // The same four microbatches, two each: the same mean but for the order of the sum.
    assert_close(two.loss[0], one.loss[0], 1e-6);
    assert_close(two.norm[0], one.norm[0], 1e-4);
}

/// And mechanisms act within the iterations of other tests.
TEST(the_loss_falls_with_every_mechanism)
{
    double dense_loss = 0; // after ITERATIONS
    for (int mechanism = 0; mechanism < EXEC_MECHANISM_COUNT; mechanism++) {
        const exec_model model = learning_model((exec_mechanism)mechanism);
        learning_run run = {.model = &model, .way = &learning_one_rank, .iteration_count = 40};

        learning_execute(&run);

        if (mechanism == EXEC_DENSE) dense_loss = run.loss[ITERATIONS - 1];
        const bool acts = mechanism == EXEC_DENSE || run.loss[ITERATIONS - 1] != dense_loss;
        const bool knows_nothing = run.loss[0] > 5.4 && run.loss[0] < 5.8; // log 256 = 5.545
        if (knows_nothing && run.loss[39] < 4.2 && acts) continue;
        fail_msg("%s: loss %g, then %g", exec_mechanism_names[mechanism], run.loss[0],
                 run.loss[39]);
    }
}

/// That the comparison sees a difference at all.
TEST(another_seed_learns_something_else)
{
    exec_model model = learning_model(EXEC_DENSE);
    const learning_run one = learn(&model, &learning_one_rank);
    model.seed++;
    const learning_run other = learn(&model, &learning_one_rank);

    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        assert_true(one.loss[iteration] != other.loss[iteration]);
        assert_true(one.norm[iteration] != other.norm[iteration]);
    }
    assert_true(one.state_hash != other.state_hash);
}

enum { DOCUMENTS = 7, PLACES = ITERATIONS * LEARNING_MICROBATCHES };

typedef struct packed_run {
    exec_model model;
    exec_packing packing;
    int64_t first_document[PLACES + 1];
    int first_row[ITERATIONS * DOCUMENTS + PLACES];
    int64_t number[ITERATIONS * DOCUMENTS];
} packed_run;

/// Lengths of the documents of every iteration; the longest is a whole sequence.
static const int lengths[DOCUMENTS] = {5, 32, 1, 17, 9, 30, 3};

/// @param place_of [DOCUMENTS] of each among the microbatches of all replicas
static void pack(packed_run *packed, int replica_count, const int *place_of)
{
    int64_t count = 0;
    packed->packing = (exec_packing){.iteration_count = ITERATIONS,
                                     .replica_count = replica_count,
                                     .microbatch_count = LEARNING_MICROBATCHES / replica_count,
                                     .first_document = packed->first_document,
                                     .first_row = packed->first_row,
                                     .number = packed->number};
    packed->first_document[0] = 0;
    for (int place = 0; place < PLACES; place++) {
        int row = 0;
        for (int document = 0; document < DOCUMENTS; document++) {
            if (place_of[document] != place % LEARNING_MICROBATCHES) continue;
            packed->first_row[count + place] = row;
            packed->number[count++] = place / LEARNING_MICROBATCHES * DOCUMENTS + document;
            row += lengths[document];
        }
        packed->first_row[count + place] = row;
        packed->first_document[place + 1] = count;
        if (row > packed->packing.row_max) packed->packing.row_max = row;
    }
    packed->model = learning_model(EXEC_DENSE);
    packed->model.packed_rows = packed->packing.row_max;
}

static learning_run learn_packed(const packed_run *packed, const learning_way *way)
{
    learning_run run = {.model = &packed->model,
                        .way = way,
                        .iteration_count = ITERATIONS,
                        .packing = &packed->packing};
    learning_execute(&run);
    return run;
}

static const int by_turns[DOCUMENTS] = {0, 1, 2, 3, 0, 2, 1};

TEST(packed_documents_learn_the_same_under_every_plan)
{
    packed_run packed;
    for (int replicas = 1; replicas <= 2; replicas++) {
        pack(&packed, replicas, by_turns);
        learning_way way = learning_one_rank;
        way.replica_count = replicas;
        const learning_run one = learn_packed(&packed, &way);
        for (int index = 0; index < WAY_COUNT; index += TEST_SHARE) {
            if (replicas == 2 && ways[index].plans[1].rank_count == 0) continue;
            way = ways[index];
            way.replica_count = replicas;
            const learning_run other = learn_packed(&packed, &way);
            learning_assert_same(&one, &other);
        }
    }
}

/// One microbatch is empty, one overfull, and the order is another.
TEST(another_packing_changes_the_order_of_sums_alone)
{
    static const int otherwise[DOCUMENTS] = {3, 0, 0, 0, 1, 1, 3};
    packed_run packed;
    pack(&packed, 1, by_turns);
    const learning_run one = learn_packed(&packed, &learning_one_rank);

    pack(&packed, 1, otherwise);
    const learning_run other = learn_packed(&packed, &learning_one_rank);

    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        assert_close(other.loss[iteration], one.loss[iteration], 1e-3);
    }
    assert_close(other.loss[0], one.loss[0], 1e-6);
    assert_close(other.norm[0], one.norm[0], 1e-5);
    assert_true(other.state_hash != one.state_hash);
}

TEST(documents_that_are_not_packed_are_refused)
{
    packed_run packed;
    pack(&packed, 1, by_turns);
    packed.packing.iteration_count = 1;
    learning_run run = {.model = &packed.model,
                        .way = &learning_one_rank,
                        .iteration_count = 2,
                        .packing = &packed.packing};

    assert_fails_naming(learning_try(&run, &why), STATUS_UNSUPPORTED,
                        "iteration 1 of 4 microbatches; documents are packed for 1 "
                        "iterations of 4");

    exec_device *device = NULL;
    exec_training_device options = {.model = &packed.model,
                                    .text = &learning_text,
                                    .packing = &packed.packing,
                                    .backend = EXEC_BACKEND_CUDA_FP32};
    assert_fails(exec_training_device_create(&options, 0, &device, &why), STATUS_UNSUPPORTED,
                 "documents of unlike length are packed on device cpu only");

    packed.model.mechanism = EXEC_MOD;
    assert_int_equal(exec_model_check(&packed.model, &why), STATUS_UNSUPPORTED);
}

int main(void)
{
    return run_all_tests(learning_read_text, learning_free_text);
}
