/// The recipe for Slurm: which nodes go back, when and under which names of ranks, and what cannot
/// be given back; which frameworks take a plan; and more LayerSpecs than DeepSpeed counts. What is
/// written whole is tested in tests/cli/export.sh and slurm_shrink.sh, frameworks' own readers in
/// tests/exchange.
#include "analysis/export/frameworks.h"
#include "tests/test_memory.h"

#include <string.h>

enum { RANKS = 6, STEPS_MAX = 4, PIECES_MAX = 4 };

static const int cuts[RANKS + 1] = {0, 1, 2, 3, 4, 5, 6};

/// The plans of a run: iterations from which on so many ranks are used; two GPUs make a node.
typedef struct recipe {
    struct {
        int from, count;
        int ranks[RANKS];
        int more_replicas;
    } steps[STEPS_MAX];
    int step_count;
    int more_replicas, gpus_per_rank, gpus_per_node; // 0: 0, 1, 2
    const char *pieces[PIECES_MAX];                  // of the recipe, or
    const char *refusal;
    status code;
} recipe;

static status write(const recipe *of, text_buffer *out, error_message *err)
{
    ana_plan_step steps[STEPS_MAX];
    for (int step = 0; step < of->step_count; step++) {
        steps[step] = (ana_plan_step){
            .from_iteration = of->steps[step].from,
            .plan = {.first_layer = cuts,
                     .rank_count = of->steps[step].count,
                     .chunk_count = 1,
                     .schedule = "1f1b",
                     .microbatch_count = 2,
                     .stage_ranks = of->steps[step].ranks,
                     .data_parallel = 1 + of->more_replicas + of->steps[step].more_replicas}};
    }
    const ana_slurm_shrink shrink = {.manager = "slurm-shrink",
                                     .origin = "the row",
                                     .steps = steps,
                                     .step_count = of->step_count,
                                     .end_iteration = 100,
                                     .gpus_per_rank = of->gpus_per_rank > 0 ? of->gpus_per_rank : 1,
                                     .gpus_per_node =
                                         of->gpus_per_node > 0 ? of->gpus_per_node : 2};
    return ana_slurm_shrink_write(&shrink, memory, out, err);
}

static const recipe recipes[] = {
    // Ranks are numbered anew without node 1, ranks 2 and 3, which went back.
    {.steps = {{0, 6, {0, 1, 2, 3, 4, 5}, 0}, {40, 4, {5, 0, 1, 4}, 0}},
     .step_count = 2,
     .pieces = {"#   iterations 0 to 39: 3 nodes, 6 tasks\n"
                "#   iterations 40 to 99: 2 nodes, 4 tasks, without node 1\n",
                "train 0 40 3 \"$(names 0-2)\" 6 \"$@\" <<'END'\n",
                "keep 0 2\ntrain 40 100 2 \"$(names 0 2)\" 4 \"$@\" <<'END'\n",
                "\"stage_ranks\":[3,0,1,2]"}},
    // A node that is idle for a while and needed again stays.
    {.steps = {{0, 4, {0, 1, 2, 3}, 0},
               {10, 2, {0, 1}, 0},
               {20, 4, {0, 1, 2, 3}, 0},
               {30, 2, {0, 1}, 0}},
     .step_count = 4,
     .pieces = {"#   iterations 0 to 29: 2 nodes, 4 tasks\n"
                "#   iterations 30 to 99: 1 nodes, 2 tasks, without node 1\n",
                "keep 0\ntrain 30 100 1 \"$(names 0)\" 2 "}},
    // The batch script keeps its node without tasks.
    {.steps = {{0, 6, {0, 1, 2, 3, 4, 5}, 0}, {40, 2, {2, 3}, 0}},
     .step_count = 2,
     .pieces = {"40 to 99: 2 nodes, 2 tasks, without node 2\n",
                "keep 0-1\ntrain 40 100 1 \"$(names 1)\" 2 "}},
    // Nodes 0 and 1 are of replica 0, 2 and 3 of replica 1.
    {.steps = {{0, 4, {0, 1, 2, 3}, 0}, {40, 2, {0, 1}, 0}},
     .step_count = 2,
     .more_replicas = 1,
     .gpus_per_rank = 2,
     .gpus_per_node = 4,
     .pieces = {"# Of the row: 2 x 4 ranks of 2 GPUs on 4 nodes of 4.\n",
                "40 to 99: 2 nodes, 8 tasks, without nodes 1, 3\n",
                "keep 0 2\ntrain 40 100 2 \"$(names 0 2)\" 8 ", "--ntasks-per-node=4"}},
    {.steps = {{0, 4, {0, 1, 2, 3}, 0}, {40, 1, {0}, 0}},
     .step_count = 2,
     .refusal = "the row uses 1 of the 2 GPUs of node 0 from iteration 40 on, when nodes go "
                "back: \"repack\": {\"unit\": \"node\"} releases whole nodes only",
     .code = STATUS_INVALID},
    {.steps = {{0, 4, {0, 1, 2, 3}, 0}, {40, 2, {0, 4}, 0}},
     .step_count = 2,
     .refusal = "the row has rank 4 in the plan of iteration 40, and 4 ranks at the start",
     .code = STATUS_FORMAT},
    {.steps = {{0, 4, {0, 1, 2, 3}, 0}, {40, 2, {0, 1}, 1}},
     .step_count = 2,
     .refusal = "the row makes 2 replicas of 1 with the ranks that it releases at iteration 40: "
                "no node is given back",
     .code = STATUS_INVALID},
};

TEST(recipes_give_back_whole_nodes)
{
    for (size_t each = 0; each < sizeof recipes / sizeof recipes[0]; each++) {
        const recipe *of = &recipes[each];
        arena_reset(memory);
        text_buffer out = {0};
        assert_int_equal(write(of, &out, &why), of->code);
        if (of->refusal != NULL) assert_string_equal(why.message, of->refusal);
        assert_int_equal(out.length == 0, of->refusal != NULL);
        for (int piece = 0; piece < PIECES_MAX && of->pieces[piece] != NULL; piece++) {
            if (strstr(out.bytes, of->pieces[piece]) != NULL) continue;
            fail_msg("no '%s' in:\n%s", of->pieces[piece], out.bytes);
        }
        text_free(&out);
    }
}

/// Letters of the frameworks that take a plan of RANKS layers on two ranks.
static const char *takers(const char *schedule, int chunks, bal_placement placement,
                          const bal_schedule *order, const ana_launch *launch)
{
    static const int halves[] = {0, 3, 6};
    static const int quarters[] = {0, 2, 3, 5, 6};
    static const int ranks[] = {0, 1};
    static char letters[ANA_FRAMEWORK_COUNT];
    const bal_plan plan = {.first_layer = chunks == 1 ? halves : quarters,
                           .rank_count = 2,
                           .chunk_count = chunks,
                           .placement = placement,
                           .schedule = schedule,
                           .microbatch_count = 2,
                           .stage_ranks = ranks,
                           .data_parallel = 1,
                           .order = order};
    int count = 0;
    for (int framework = ANA_FRAMEWORK_ANY + 1; framework < ANA_FRAMEWORK_COUNT; framework++) {
        const status checked =
            ana_export_check((ana_framework)framework, &plan, launch, memory, NULL);
        if (checked == STATUS_OK) letters[count++] = " mbptd"[framework];
    }
    letters[count] = '\0';
    return letters;
}

TEST(frameworks_take_what_their_writers_write)
{
    const ana_launch plain = {
        .is_known = true, .microbatch_size = 1, .rank_count = 2, .chunk_count = 1};
    ana_launch sharded = plain;
    const bal_schedule order = {.name = "zb-auto"};
    sharded.parallel.tensor = 2;

    assert_string_equal(takers("1f1b", 1, BAL_PLACEMENT_LOOP, NULL, &plain), "mbptd");
    assert_string_equal(takers("1f1b", 1, BAL_PLACEMENT_LOOP, NULL, &sharded), "mbpt");
    assert_string_equal(takers("interleaved-1f1b", 2, BAL_PLACEMENT_LOOP, NULL, &plain), "mbpt");
    assert_string_equal(takers("zb-v-hand", 2, BAL_PLACEMENT_V, NULL, &plain), "pt");
    assert_string_equal(takers("zb-auto", 1, BAL_PLACEMENT_LOOP, NULL, &plain), "t");
    assert_string_equal(takers("zb-auto", 1, BAL_PLACEMENT_LOOP, &order, &plain), "pt");
    assert_string_equal(takers("chimera", 2, BAL_PLACEMENT_BIDIRECTIONAL, NULL, &plain), "");
}

TEST(more_specs_than_an_index_holds_are_refused)
{
    const int first_layer[] = {0, 2147483000};
    const int own_rank = 0;
    const ana_export_how how = {.is_split_only = true};
    text_buffer out = {0};
    const bal_plan plan = {.first_layer = first_layer,
                           .rank_count = 1,
                           .chunk_count = 1,
                           .schedule = "1f1b",
                           .microbatch_count = 4,
                           .stage_ranks = &own_rank,
                           .data_parallel = 1};

    assert_fails(ana_export_deepspeed(&plan, 1000, 0, &how, memory, &out, &why), STATUS_INVALID,
                 "2147484000 LayerSpecs exceed 2147483647");
    assert_int_equal(out.length, 0);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
