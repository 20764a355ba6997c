/// Several ranks' traces together: clocks recovered from messages, sets that do not belong
/// together, idle time by its causes, and what stands in the store. Numbers are worked out by hand.
#include "tests/test_memory.h"
#include "traces/import/import_kineto.h"
#include "traces/store/catalog.h"
#include "traces/store/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const trace_profile_source two_ranks[] = {{.path = "traces/kineto/rank0.json", .rank = 0},
                                                 {.path = "traces/kineto/rank1.json", .rank = 1}};

static trace_import read_two(void)
{
    trace_import import;
    require(trace_import_read(two_ranks, 2, TRACE_PROFILER_KINETO, memory, &import, &why));
    return import;
}

static trace_op op(int rank, trace_op_kind kind, int layer, int64_t begin_ns, int64_t end_ns)
{
    return (trace_op){.rank = rank,
                      .kind = kind,
                      .stage = layer,
                      .layer = layer,
                      .begin_ns = begin_ns,
                      .end_ns = end_ns,
                      .busy_ns = end_ns - begin_ns};
}

TEST(a_chain_of_messages_bounds_clocks_of_ranks_that_do_not_talk)
{
    // Rank 2 is 500 behind rank 1, which is 300 ahead of rank 0; each message takes 10.
    const trace_op ops[] = {
        op(0, TRACE_OP_FORWARD, 0, 0, 100),    op(1, TRACE_OP_FORWARD, 1, 410, 500),
        op(2, TRACE_OP_FORWARD, 2, 10, 100),   op(2, TRACE_OP_BACKWARD, 2, 100, 200),
        op(1, TRACE_OP_BACKWARD, 1, 710, 800), op(0, TRACE_OP_BACKWARD, 0, 510, 600),
    };
    trace_alignment alignment;

    assert_int_equal(trace_alignment_find(ops, 6, 3, memory, &alignment, NULL), STATUS_OK);

    assert_int_equal(alignment.offset_ns[1], -300);
    assert_int_equal(alignment.offset_ns[2], 200);
    assert_int_equal(alignment.residual_ns[1], 10);
    assert_int_equal(alignment.residual_ns[2], 20);
}

TEST(messages_one_way_bound_one_side)
{
    const trace_op ops[] = {op(0, TRACE_OP_FORWARD, 0, 1000, 2000),
                            op(1, TRACE_OP_FORWARD, 1, 500, 600)};
    trace_alignment alignment;

    assert_int_equal(trace_alignment_find(ops, 2, 2, memory, &alignment, NULL), STATUS_OK);

    assert_int_equal(alignment.offset_ns[1], 1500);
    assert_int_equal(alignment.residual_ns[1], -1);
}

TEST(messages_that_contradict_each_other_are_refused_or_said)
{
    // Forward as if rank 1 were 100 ns behind at least, backward as if 60 at most.
    trace_op ops[] = {op(0, TRACE_OP_FORWARD, 0, 0, 200), op(1, TRACE_OP_FORWARD, 1, 100, 150),
                      op(1, TRACE_OP_BACKWARD, 1, 150, 300), op(0, TRACE_OP_BACKWARD, 0, 360, 400)};
    trace_alignment alignment;

    assert_int_equal(trace_alignment_find(ops, 4, 2, memory, &alignment, NULL), STATUS_OK);
    assert_int_equal(alignment.contradiction_ns, 20);
    assert_int_equal(alignment.offset_ns[1], 80);

    ops[0].end_ns = 200000000;
    assert_fails(trace_alignment_find(ops, 4, 2, memory, &alignment, &why), STATUS_INVALID,
                 "messages between the ranks contradict each other by more than 10 ms, "
                 "whatever their clocks: these are not traces of one run");
}

static void expect_set_refused(const char *const texts[2], const char *message)
{
    trace_profile_source sources[2];
    trace_import import;
    for (int file = 0; file < 2; file++) {
        sources[file] = (trace_profile_source){.path = file == 0 ? "a.json" : "b.json",
                                               .bytes = texts[file],
                                               .length = strlen(texts[file]),
                                               .rank = file};
    }
    assert_fails(trace_import_read(sources, 2, TRACE_PROFILER_KINETO, memory, &import, &why),
                 STATUS_INVALID, message);
}

#define RANK(rank, size) "{\"distributedInfo\":{\"rank\":" #rank ",\"world_size\":" #size "},"
#define STEP(step, name)                                                                           \
    "\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#" #step    \
    "\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":100},{\"ph\":\"X\",\"cat\":\"user_annotation\","      \
    "\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":10,\"dur\":10}]}"

TEST(files_that_do_not_belong_together_are_refused)
{
    expect_set_refused(
        (const char *const[]){RANK(1, 2) STEP(1, "PP:0F0"), RANK(1, 2) STEP(1, "PP:1F0")},
        "a.json and b.json are both of rank 1");
    expect_set_refused(
        (const char *const[]){RANK(1, 2) STEP(1, "PP:0F0"), "{" STEP(1, "PP:1F0")},
        "a.json and b.json are both of rank 1 (a file that does not say its rank has "
        "that of its place)");
    expect_set_refused(
        (const char *const[]){RANK(0, 2) STEP(1, "PP:0F0"), RANK(1, 4) STEP(1, "PP:1F0")},
        "a.json is of a run with 2 ranks, b.json of one with 4");
    expect_set_refused(
        (const char *const[]){RANK(0, 2) STEP(1, "PP:0F0"), RANK(1, 2) STEP(2, "PP:1F0")},
        "a.json has 1 iterations from 1 to 1, b.json has 1 from 2 to 2: record the same steps on "
        "all "
        "ranks");
    expect_set_refused(
        (const char *const[]){RANK(0, 2) STEP(1, "PP:0F0"), RANK(1, 2) STEP(1, "Forward 0")},
        "a.json and b.json name their annotations differently");
    expect_set_refused(
        (const char *const[]){RANK(0, 2) STEP(1, "PP:0F0"), RANK(1, 2) STEP(1, "PP:0F0")},
        "rank 0 and rank 1 both ran F of layer 0, microbatch 0 in iteration 1: import the ranks of "
        "one pipeline (of one data-parallel replica)");
    expect_set_refused(
        (const char *const[]){RANK(0, 2) STEP(1, "PP:0F0"), RANK(2, 2) STEP(1, "PP:1F0")},
        "b.json is of rank 2, but its run has 2 ranks");
}

/// The run that traces/recorded holds: PyTorch on two ranks of one host, so that their clocks
/// agree. The sums are those of a plain script that cuts every operator with every annotation.
TEST(a_recorded_pipeline_has_its_loads_and_agreeing_clocks)
{
    static const int64_t expected_ns[6][3] = {
        // F, B, W of 8 microbatches; the embedding has no input gradient
        {1218766, 0, 1975606},          {46877005, 88736741, 33571941},
        {35228842, 42553372, 27819864}, {45842700, 67700532, 32863797},
        {64477849, 82797382, 28449644}, {5847052, 5870960, 4388707},
    };
    const trace_profile_source sources[] = {
        {.path = "../traces/recorded/gpt-pipeline-rank1.pt.trace.json.gz", .rank = 0},
        {.path = "../traces/recorded/gpt-pipeline-rank0.pt.trace.json.gz", .rank = 1}};
    int64_t sums_ns[6][3] = {{0}};
    trace_import import;

    require(trace_import_read(sources, 2, TRACE_PROFILER_KINETO, memory, &import, &why));

    assert_int_equal(import.recordings[0].rank, 0); // whatever the order of the files
    assert_int_equal(import.layer_count, 6);
    assert_int_equal(import.microbatch_count, 4);
    assert_int_equal(import.iteration_count, 2);
    for (int rank = 0; rank < 2; rank++) {
        const trace_recording *recording = &import.recordings[rank];
        assert_false(recording->on_device);
        for (int cell = 0; cell < recording->cell_count; cell++) {
            const trace_cell *each = &recording->cells[cell];
            sums_ns[each->layer][each->kind] += each->busy_ns;
        }
    }
    for (int layer = 0; layer < 6; layer++) {
        for (int kind = 0; kind < 3; kind++) {
            assert_int_equal(sums_ns[layer][kind], expected_ns[layer][kind]);
        }
    }
    const int64_t residual_ns = import.alignment.residual_ns[1];
    assert_true(residual_ns > 0 && residual_ns < 1000000);
    assert_true(llabs(import.alignment.offset_ns[1]) <= residual_ns);
    // Ops hide what clocks that are off by less than the residual make of them.
    assert_true(llabs(import.replay.replayed_ns - import.replay.recorded_ns) <
                import.replay.recorded_ns / 100);
}

TEST(replays_cost_what_is_charged_unless_gaps_are_left)
{
    for (int leaves = 0; leaves < 2; leaves++) {
        trace_import import = read_two();
        trace_info info = trace_info_default();
        trace_store *store = NULL;
        trace_reader *reader = NULL;
        bal_layer_costs costs;
        bool changed = false;
        int64_t trace_id = 0;
        int64_t sum_ns = 0;
        info.name = "run";
        info.gaps = leaves == 1 ? TRACE_GAPS_LEAVE : TRACE_GAPS_DEFAULT;
        assert_int_equal(trace_store_open_memory(&store, NULL), STATUS_OK);
        assert_int_equal(trace_import_write(&import, &info, store, &trace_id, NULL), STATUS_OK);

        assert_int_equal(
            trace_reader_open(store, trace_id, TRACE_COLUMNS_RECORDED, memory, &reader, NULL),
            STATUS_OK);
        assert_int_equal(trace_reader_costs_at(reader, 7, &costs, &changed, NULL), STATUS_OK);

        for (int cell = 0; cell < costs.layer_count * costs.microbatch_count; cell++) {
            sum_ns += costs.forward_ns[cell] + costs.backward_input_ns[cell];
        }
        assert_int_equal(sum_ns, 214000 + (leaves == 1 ? 0 : 2000));
        assert_int_equal(trace_by_id(store, trace_id, memory, &info, NULL), STATUS_OK);
        assert_int_equal(info.has_gaps, leaves == 0);
        assert_int_equal(info.status, TRACE_COMPLETE);
        assert_int_equal(info.source, TRACE_SOURCE_KINETO);
        assert_int_equal(info.split, TRACE_UNKNOWN);
        assert_int_equal(import.op_count, 10); // 8 of layers, 2 SEND_F
        // As stored: F of rank 1 at 20, 40-77 BW, 77-97, 97-134; then 134-164 on rank 0.
        trace_replay replay;
        assert_int_equal(trace_replay_of_store(store, info.trace_id, &replay, NULL), STATUS_OK);
        assert_int_equal(replay.recorded_ns, 174000);
        assert_int_equal(replay.replayed_ns, 174000);
        assert_int_equal(replay.charges_ns, 164000);
        assert_int_equal(replay.outside_ns[TRACE_GAP_WAITING], 66000);
        assert_int_equal(replay.outside_ns[TRACE_GAP_COMMUNICATION], 8000);
        assert_int_equal(replay.outside_ns[TRACE_GAP_HOST], 2000);
        // Charged alone, the last BW ends at 166.
        assert_int_equal(info.outside_ns, leaves == 1 ? 0 : 834000);
        trace_store_close(store);
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
