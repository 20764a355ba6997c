/// Tests of balance/run/gradient_reduction.h: what a reduction of gradients exposes when the W of a
/// rank are regrouped by layer, against the closed form of the zero-bubble paper's appendix and by
/// hand.
#include "balance/run/iteration_times.h"

#include "tests/assert_close.h"

#include <string.h>

enum { LAYERS_MAX = 16 };

/// One rank whose last ops are k W, each of all its layers.
typedef struct tail {
    bal_op ops[3 * LAYERS_MAX];
    int first_op[2];
    bal_schedule schedule;
    int first_layer[3];
    bal_placed_partition plan;
    int64_t forward_ns[LAYERS_MAX];
    int64_t weight_ns[LAYERS_MAX];
    bal_layer_costs layers;
    int last_backward[2];
} tail;

static void fill_layers(tail *at, int layers, int64_t weight_ns)
{
    for (int layer = 0; layer < layers; layer++) {
        at->weight_ns[layer] = weight_ns;
    }
    at->layers = (bal_layer_costs){.layer_count = layers,
                                   .microbatch_count = 1,
                                   .has_split = true,
                                   .forward_ns = at->forward_ns,
                                   .backward_input_ns = at->forward_ns,
                                   .backward_weight_ns = at->weight_ns};
}

/// F and B of k microbatches, then their W.
static void one_chunk(tail *at, int layers, int pending, int64_t weight_ns)
{
    int op = 0;
    *at = (tail){0};
    for (int kind = 0; kind < 3; kind++) {
        for (int microbatch = 0; microbatch < pending; microbatch++) {
            at->ops[op++] = (bal_op){.kind = (uint8_t)kind, .microbatch = microbatch};
        }
    }
    at->first_op[1] = op;
    at->schedule = (bal_schedule){.rank_count = 1,
                                  .chunk_count = 1,
                                  .microbatch_count = pending,
                                  .has_split = true,
                                  .first_op = at->first_op,
                                  .ops = at->ops};
    at->first_layer[1] = layers;
    at->plan =
        (bal_placed_partition){.rank_count = 1, .chunk_count = 1, .first_layer = at->first_layer};
    at->last_backward[0] = op - 1;
    fill_layers(at, layers, weight_ns);
}

/// How long the reduction lasts beyond the last W, which ends at end_ns.
static int64_t exposed(const tail *at, bal_reduction_overlap overlap, const int64_t *reduction_ns,
                       const int64_t *stage_end_ns, int64_t end_ns, double factor)
{
    int64_t ready_ns[LAYERS_MAX] = {0};
    bal_reduction_note_ready(overlap, &at->schedule, at->last_backward, &at->plan, &at->layers,
                             stage_end_ns, &factor, ready_ns);
    return bal_reduction_end_ns(at->last_backward, &at->plan, 0, reduction_ns, ready_ns) - end_ns;
}

static int64_t larger(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

static void regrouped_weights_expose_what_the_closed_form_says(void **state)
{
    (void)state;
    const int64_t weight_ns = 700; // T_W is n of them
    const int64_t end_ns = 1000000;
    for (int n = 1; n <= 8; n++) {
        for (int k = 1; k <= 8; k++) {
            for (int64_t layer_ns = 1; layer_ns < 20000; layer_ns = layer_ns * 3 + 1) {
                tail at;
                int64_t reduction_ns[LAYERS_MAX];
                one_chunk(&at, n, k, weight_ns);
                for (int layer = 0; layer < n; layer++) {
                    reduction_ns[layer] = layer_ns;
                }

                const int64_t found =
                    exposed(&at, BAL_REDUCTION_REGROUPED, reduction_ns, &end_ns, end_ns, 1.0);
                const int64_t by_weight =
                    exposed(&at, BAL_REDUCTION_BACKWARD, reduction_ns, &end_ns, end_ns, 1.0);

                // max(T_DP - k T_W (n - 1) / n, T_DP / n), with T_W = n weight_ns; by W, k is 1.
                const int64_t all_ns = n * layer_ns;
                assert_int_equal(found, larger(all_ns - k * weight_ns * (n - 1), layer_ns));
                assert_int_equal(by_weight, larger(all_ns - weight_ns * (n - 1), layer_ns));
            }
        }
    }
}

static void a_slow_rank_regroups_as_much_slower(void **state)
{
    (void)state;
    tail at;
    const int64_t reduction_ns[] = {100, 100, 100, 100};
    const int64_t end_ns = 100000;
    one_chunk(&at, 4, 3, 10);

    // Layer 3 is ready 3 x 3 x 10 x 2 before the end.
    assert_int_equal(exposed(&at, BAL_REDUCTION_REGROUPED, reduction_ns, &end_ns, end_ns, 2.0),
                     400 - 180);
}

/// Two chunks of a layer or two each; the rank ends with W of chunk 1, 0, 1, 0.
static void chunks_are_regrouped_one_after_the_other(void **state)
{
    (void)state;
    tail at = {0};
    const bal_op ops[] = {{OP_BACKWARD_INPUT, 0, 1, 0},  {OP_BACKWARD_INPUT, 0, 0, 0},
                          {OP_BACKWARD_INPUT, 0, 1, 1},  {OP_BACKWARD_INPUT, 0, 0, 1},
                          {OP_BACKWARD_WEIGHT, 0, 1, 0}, {OP_BACKWARD_WEIGHT, 0, 0, 0},
                          {OP_BACKWARD_WEIGHT, 0, 1, 1}, {OP_BACKWARD_WEIGHT, 0, 0, 1}};
    memcpy(at.ops, ops, sizeof ops);
    at.first_op[1] = 8;
    at.schedule = (bal_schedule){.rank_count = 1,
                                 .chunk_count = 2,
                                 .microbatch_count = 2,
                                 .has_split = true,
                                 .first_op = at.first_op,
                                 .ops = at.ops};
    at.first_layer[1] = 1;
    at.first_layer[2] = 3;
    at.plan =
        (bal_placed_partition){.rank_count = 1, .chunk_count = 2, .first_layer = at.first_layer};
    at.last_backward[0] = 7;
    at.last_backward[1] = 6;
    fill_layers(&at, 3, 10);
    at.weight_ns[0] = 40;
    // W of chunk 1 take 20, of chunk 0 take 40: they run 880-900, 900-940, 940-960, 960-1000.
    const int64_t stage_end_ns[] = {1000, 960};
    int64_t ready_ns[3] = {0};
    const double factor = 1.0;

    bal_reduction_note_ready(BAL_REDUCTION_REGROUPED, &at.schedule, at.last_backward, &at.plan,
                             &at.layers, stage_end_ns, &factor, ready_ns);

    // Regrouped: chunk 1 has 880-920, of it layer 2 the first half; chunk 0 has 920-1000.
    assert_int_equal(ready_ns[2], 900);
    assert_int_equal(ready_ns[1], 920);
    assert_int_equal(ready_ns[0], 1000);
}

static void a_full_backward_has_nothing_to_regroup(void **state)
{
    (void)state;
    tail at;
    const int64_t reduction_ns[] = {100, 100};
    const int64_t end_ns = 10000;
    one_chunk(&at, 2, 2, 10);
    at.ops[2] = (bal_op){.kind = OP_BACKWARD, .microbatch = 0};
    at.ops[3] = (bal_op){.kind = OP_BACKWARD, .microbatch = 1};
    at.first_op[1] = 4;
    at.last_backward[0] = 3;

    assert_int_equal(exposed(&at, BAL_REDUCTION_REGROUPED, reduction_ns, &end_ns, end_ns, 1.0),
                     exposed(&at, BAL_REDUCTION_BACKWARD, reduction_ns, &end_ns, end_ns, 1.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regrouped_weights_expose_what_the_closed_form_says),
        cmocka_unit_test(a_slow_rank_regroups_as_much_slower),
        cmocka_unit_test(chunks_are_regrouped_one_after_the_other),
        cmocka_unit_test(a_full_backward_has_nothing_to_regroup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
