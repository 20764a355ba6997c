/// Layers as an evaluator is shown them where ranks differ in speed.
#include "balance/control/rank_speed.h"
#include "tests/assert_close.h"

typedef struct shown {
    int64_t forward_ns[4];
    int64_t weight_ns[4];
} shown;

static status note(void *context, const bal_layer_costs *layers, const bal_placed_partition *plan,
                   int64_t *iteration_ns, error_message *err)
{
    (void)plan;
    (void)err;
    shown *seen = context;
    for (int cell = 0; cell < 4; cell++) {
        seen->forward_ns[cell] = layers->forward_ns[cell];
        seen->weight_ns[cell] = layers->backward_weight_ns[cell];
    }
    *iteration_ns = 77;
    return STATUS_OK;
}

static status note_of(void *context, const bal_layer_costs *layers,
                      const bal_placed_partition *plan, int microbatch_count, int64_t *iteration_ns,
                      error_message *err)
{
    TRY(note(context, layers, plan, iteration_ns, err));
    *iteration_ns += microbatch_count;
    return STATUS_OK;
}

static const int first_layer[] = {0, 1, 2};
static const int machine_rank[] = {2, 0};
static const int64_t factor_ppb[] = {1000000000, 9, 1250000000};

static void layers_take_the_factor_of_the_rank_that_holds_them(void **state)
{
    (void)state;
    static const int64_t forward[] = {100, 10, 100, 10}; // 2 layers of 2 microbatches
    static const int64_t none[4] = {0};
    static const int64_t weight[] = {3, 0, 3, 0};
    const bal_layer_costs layers = {.layer_count = 2,
                                    .microbatch_count = 2,
                                    .forward_ns = forward,
                                    .backward_input_ns = none,
                                    .backward_weight_ns = weight};
    const bal_placed_partition plan = {.first_layer = first_layer,
                                       .rank_count = 2,
                                       .chunk_count = 1,
                                       .machine_rank = machine_rank};
    shown seen = {0};
    const bal_evaluator inner = {.context = &seen, .iteration_ns = note};
    bal_speed_evaluator context = {
        .inner = &inner, .rank_factor_ppb = factor_ppb, .memory = arena_create(1024)};
    const bal_evaluator slowed = bal_speed_evaluator_of(&context);
    int64_t ns = 0;

    for (int call = 0; call < 2; call++) {
        assert_ok(slowed.iteration_ns(slowed.context, &layers, &plan, &ns, NULL));
    }

    assert_int_equal(ns, 77);
    assert_null(slowed.iteration_ns_of);           // as the inner one has none
    const int64_t expected[] = {125, 13, 100, 10}; // 12.5 rounds up
    assert_memory_equal(seen.forward_ns, expected, sizeof expected);
    assert_int_equal(seen.weight_ns[0], 4); // 3.75

    const bal_evaluator any_count = {
        .context = &seen, .iteration_ns = note, .iteration_ns_of = note_of};
    context.inner = &any_count;
    const bal_evaluator both = bal_speed_evaluator_of(&context);
    seen = (shown){0};
    assert_ok(both.iteration_ns_of(both.context, &layers, &plan, 8, &ns, NULL));
    assert_int_equal(ns, 85);
    assert_memory_equal(seen.forward_ns, expected, sizeof expected);
    arena_destroy(context.memory);
}

static void a_time_that_no_longer_fits_is_refused(void **state)
{
    (void)state;
    static const int64_t forward[] = {INT64_MAX / 4 * 4, 0};
    static const int64_t none[2] = {0};
    const bal_layer_costs layers = {.layer_count = 2,
                                    .microbatch_count = 1,
                                    .forward_ns = forward,
                                    .backward_input_ns = none,
                                    .backward_weight_ns = none};
    const bal_placed_partition plan = {.first_layer = first_layer,
                                       .rank_count = 2,
                                       .chunk_count = 1,
                                       .machine_rank = machine_rank};
    shown seen = {0};
    const bal_evaluator inner = {.context = &seen, .iteration_ns = note};
    bal_speed_evaluator context = {
        .inner = &inner, .rank_factor_ppb = factor_ppb, .memory = arena_create(1024)};
    const bal_evaluator slowed = bal_speed_evaluator_of(&context);
    int64_t ns = -7;
    error_message err = {0};

    assert_int_equal(slowed.iteration_ns(slowed.context, &layers, &plan, &ns, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message, "the time of layer 0 on rank 2 does not fit 64 bits");
    assert_int_equal(ns, -7);
    arena_destroy(context.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_take_the_factor_of_the_rank_that_holds_them),
        cmocka_unit_test(a_time_that_no_longer_fits_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
