/// What training frameworks are given of a plan: layouts of Megatron-LM, read back by a parser
/// written here from the grammar; parts of DeepSpeed; the order of PyTorch. The exact files are
/// tested in tests/cli/export.sh, the frameworks' own readers in tests/exchange.
#include "analysis/export/frameworks.h"
#include "base/json.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES_MAX = 12, CASES = 400 };

static const ana_export_how as_text = {.is_split_only = true};
static const ana_export_how as_json = {.as_json = true, .is_split_only = true};
static const int own_ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

typedef struct parsed_stage {
    int blocks;
    int embeddings;
    int losses;
} parsed_stage;

/// E, L and t, each perhaps followed by *<n>, and | between stages: no parentheses, as none are
/// written.
static int parse_layout(const char *text, parsed_stage *stages)
{
    int stage = 0;
    stages[0] = (parsed_stage){0};
    while (*text != '\0') {
        const char letter = *text++;
        if (letter == '|') {
            assert_true(++stage < STAGES_MAX);
            stages[stage] = (parsed_stage){0};
            continue;
        }
        const int times = *text == '*' ? (int)strtol(text + 1, (char **)&text, 10) : 1;
        if (letter == 't') stages[stage].blocks += times;
        if (letter == 'E') stages[stage].embeddings += times;
        if (letter == 'L') stages[stage].losses += times;
        if (strchr("tEL", letter) == NULL) fail_msg("'%c' in a layout", letter);
    }
    return stage + 1;
}

/// A plan of drawn stages, some of them empty; the ends keep a layer each.
static bal_plan drawn_plan(rng *random, int *first_layer)
{
    const int rank_count = 1 + (int)rng_below(random, 4);
    const int chunk_count = 1 + (int)rng_below(random, 3);
    const int stage_count = rank_count * chunk_count;
    first_layer[0] = 0;
    for (int stage = 0; stage < stage_count; stage++) {
        const bool is_end = stage == 0 || stage == stage_count - 1;
        first_layer[stage + 1] = first_layer[stage] + (int)rng_below(random, 5) + (is_end ? 3 : 0);
    }
    return (bal_plan){.first_layer = first_layer,
                      .rank_count = rank_count,
                      .chunk_count = chunk_count,
                      .schedule = chunk_count > 1 ? "interleaved-1f1b" : "1f1b",
                      .microbatch_count = 8,
                      .stage_ranks = own_ranks,
                      .data_parallel = 1,
                      .embedding = rng_below(random, 2) == 1,
                      .head = rng_below(random, 2) == 1};
}

/// Layers of the stage that are blocks, one after another as the plan's flags say.
static int count_blocks(const bal_plan *plan, int stage)
{
    const int last = plan->first_layer[plan->rank_count * plan->chunk_count] - 1;
    int blocks = 0;
    for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
        if (plan->embedding && layer == 0) continue;
        if (plan->head && layer == last) continue;
        blocks++;
    }
    return blocks;
}

static void a_layout_gives_every_stage_the_blocks_of_the_plan(void **state)
{
    (void)state;
    rng random = rng_init(61, 0);
    for (int number = 0; number < CASES; number++) {
        int first_layer[STAGES_MAX + 1];
        parsed_stage stages[STAGES_MAX];
        arena *memory = arena_create(1 << 12);
        json_document *document = NULL;
        const char *layout = NULL;
        int block_count = 0;
        text_buffer out = {0};
        error_message err = {0};
        const bal_plan plan = drawn_plan(&random, first_layer);
        const int stage_count = plan.rank_count * plan.chunk_count;

        if (ana_export_megatron(&plan, &as_json, memory, &out, &err) != STATUS_OK) {
            fail_msg("case %d: %s", number, err.message);
        }

        int total = 0;
        assert_ok(json_open_bytes("m", out.bytes, out.length, &document, &err));
        const json_value root = json_root(document);
        assert_ok(json_string(json_member(root, "pipeline_model_parallel_layout"), &layout, &err));
        assert_ok(json_int(json_member(root, "num_layers"), 1, 1000, &block_count, &err));
        assert_int_equal(parse_layout(layout, stages), stage_count);
        for (int stage = 0; stage < stage_count; stage++) {
            assert_int_equal(stages[stage].blocks, count_blocks(&plan, stage));
            assert_int_equal(stages[stage].embeddings, stage == 0);
            assert_int_equal(stages[stage].losses, stage == stage_count - 1);
            total += stages[stage].blocks;
        }
        assert_int_equal(block_count, total);
        json_close(document);
        text_free(&out);
        arena_destroy(memory);
    }
}

static void more_specs_than_an_index_holds_are_refused(void **state)
{
    arena *memory = *state;
    const int first_layer[] = {0, 2147483000};
    error_message err = {0};
    text_buffer out = {0};
    const bal_plan plan = {.first_layer = first_layer,
                           .rank_count = 1,
                           .chunk_count = 1,
                           .schedule = "1f1b",
                           .microbatch_count = 4,
                           .stage_ranks = own_ranks,
                           .data_parallel = 1};

    assert_int_equal(ana_export_deepspeed(&plan, 1000, 0, &as_text, memory, &out, &err),
                     STATUS_INVALID);

    assert_string_equal(err.message, "2147484000 LayerSpecs exceed 2147483647");
    assert_int_equal(out.length, 0);
}

static void an_order_names_stages_in_model_order(void **state)
{
    (void)state;
    static const bal_op ops[] = {
        {.kind = OP_FORWARD, .overlaps_next = 1},
        {.kind = OP_BACKWARD, .chunk = 1, .microbatch = 12},
        {.kind = OP_BACKWARD_INPUT, .chunk = 1},
        {.kind = OP_BACKWARD_WEIGHT, .microbatch = 3},
    };
    static const int first_op[] = {0, 3, 4};
    bal_schedule schedule = {.name = "drawn",
                             .rank_count = 2,
                             .chunk_count = 2,
                             .microbatch_count = 13,
                             .placement = BAL_PLACEMENT_V,
                             .has_split = true,
                             .first_op = first_op,
                             .ops = ops};
    text_buffer as_v = {0};
    text_buffer as_loop = {0};

    assert_ok(ana_export_pytorch(&schedule, true, &as_v, NULL));
    schedule.placement = BAL_PLACEMENT_LOOP;
    assert_ok(ana_export_pytorch(&schedule, true, &as_loop, NULL));

    assert_string_equal(as_v.bytes, "(0F0;3B12)OVERLAP_F_B,3I0\n1W3\n");
    assert_string_equal(as_loop.bytes, "(0F0;2B12)OVERLAP_F_B,2I0\n1W3\n");
    text_free(&as_v);
    text_free(&as_loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layout_gives_every_stage_the_blocks_of_the_plan),
        cmocka_unit_test(more_specs_than_an_index_holds_are_refused),
        cmocka_unit_test(an_order_names_stages_in_model_order),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
