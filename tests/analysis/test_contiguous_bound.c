/// The bound over all contiguous plans: it equals an exhaustive search over the plans, and bounds
/// what the core says of each of them.
#include "analysis/compare/contiguous_bound.h"
#include "balance/partition/chain.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

enum { LAYERS = 7, MICROBATCHES = 3, RANKS_MAX = 4 };

typedef struct random_layers {
    int64_t forward[LAYERS * MICROBATCHES];
    int64_t input[LAYERS * MICROBATCHES];
    int64_t weight[LAYERS * MICROBATCHES];
} random_layers;

static bal_layer_costs draw(rng *random, int columns, random_layers *layers)
{
    for (int cell = 0; cell < LAYERS * columns; cell++) {
        layers->forward[cell] = rng_between(random, 0, 20);
        layers->input[cell] = rng_between(random, 0, 30);
        layers->weight[cell] = rng_between(random, 0, 20);
    }
    return (bal_layer_costs){.layer_count = LAYERS,
                             .microbatch_count = columns,
                             .has_split = true,
                             .forward_ns = layers->forward,
                             .backward_input_ns = layers->input,
                             .backward_weight_ns = layers->weight};
}

static int64_t cell_of(const bal_layer_costs *costs, const int64_t *times, int layer,
                       int microbatch)
{
    return times[layer * costs->microbatch_count + microbatch % costs->microbatch_count];
}

/// The definition, for one stage.
static int64_t bound_of_stage(const bal_layer_costs *costs, int begin, int end)
{
    int64_t reach = 0;
    int64_t back = 0;
    int64_t chain = 0;
    int64_t weights = 0;
    for (int layer = 0; layer < end; layer++) {
        int64_t shortest[2] = {INT64_MAX, INT64_MAX};
        for (int microbatch = 0; microbatch < MICROBATCHES; microbatch++) {
            const int64_t forward = cell_of(costs, costs->forward_ns, layer, microbatch);
            const int64_t input = cell_of(costs, costs->backward_input_ns, layer, microbatch);
            if (forward < shortest[0]) shortest[0] = forward;
            if (input < shortest[1]) shortest[1] = input;
            if (layer < begin) continue;
            chain += forward + input;
            weights += cell_of(costs, costs->backward_weight_ns, layer, microbatch);
        }
        if (layer >= begin) continue;
        reach += shortest[0];
        back += shortest[1];
    }
    const int64_t tail = weights > back ? weights : back;
    return reach + chain + tail;
}

/// Tries every plan: cuts count in base LAYERS + 1 and must not fall.
static int64_t exhaustive(const bal_layer_costs *costs, int rank_count)
{
    int64_t best = INT64_MAX;
    int plans = 1;
    for (int cut = 1; cut < rank_count; cut++) {
        plans *= LAYERS + 1;
    }
    for (int plan = 0; plan < plans; plan++) {
        int64_t largest = 0;
        int begin = 0;
        int rest = plan;
        bool is_ordered = true;
        for (int rank = 0; rank < rank_count; rank++) {
            const int end = rank + 1 < rank_count ? rest % (LAYERS + 1) : LAYERS;
            rest /= LAYERS + 1;
            is_ordered = is_ordered && end >= begin;
            if (is_ordered && end > begin) {
                const int64_t stage = bound_of_stage(costs, begin, end);
                if (stage > largest) largest = stage;
            }
            begin = end;
        }
        if (is_ordered && largest < best) best = largest;
    }
    return best;
}

static void it_is_the_smallest_over_all_plans(void **state)
{
    arena *memory = *state;
    rng random = rng_init(7, 0);
    for (int round = 0; round < 300; round++) {
        random_layers layers;
        const int ranks = 1 + (int)rng_below(&random, RANKS_MAX);
        const bal_layer_costs costs = draw(&random, round % 2 == 0 ? 1 : MICROBATCHES, &layers);
        ana_contiguous_bound bound;
        arena_reset(memory);

        assert_ok(ana_bound_contiguous(&costs, ranks, MICROBATCHES, memory, &bound, NULL));

        if (bound.makespan_ns != exhaustive(&costs, ranks)) {
            fail_msg("round %d: %lld is not %lld", round, (long long)bound.makespan_ns,
                     (long long)exhaustive(&costs, ranks));
        }
    }
}

static void work_beyond_64_bits_is_refused(void **state)
{
    arena *memory = *state;
    static const int64_t ns[] = {INT64_MAX / 8};
    const bal_layer_costs costs = {.layer_count = 1,
                                   .microbatch_count = 1,
                                   .has_split = true,
                                   .forward_ns = ns,
                                   .backward_input_ns = ns,
                                   .backward_weight_ns = ns};
    ana_contiguous_bound bound = {-7, -7};
    error_message err = {0};

    assert_int_equal(ana_bound_contiguous(&costs, 1, 1, memory, &bound, &err), STATUS_INVALID);

    assert_string_equal(err.message, "the work of an iteration does not fit 64 bits");
    assert_int_equal(bound.makespan_ns, -7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_smallest_over_all_plans),
        cmocka_unit_test(work_beyond_64_bits_is_refused),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
