/// writer, catalog and reader: rows that complete each other, what is refused, and layer costs at
/// iterations between samples, worked out by hand.
#include "tests/test.h"
#include "tests/traces/memory_store.h"
#include "traces/store/catalog.h"
#include "traces/store/reader.h"
#include "traces/store/writer.h"

#include <stdlib.h>
#include <string.h>

static trace_writer *begin(const char *name, const trace_info *info)
{
    trace_writer *writer = NULL;
    trace_info given = info != NULL ? *info : trace_info_default();
    given.name = name;
    require(trace_writer_begin(store, &given, &writer, &why));
    return writer;
}

static void put(trace_writer *writer, int iteration, int layer, int microbatch, int64_t forward_ns,
                int64_t input_ns, int64_t weight_ns)
{
    trace_load load = trace_load_init(iteration, layer, microbatch);
    load.time_ns[TRACE_OP_FORWARD] = forward_ns;
    load.time_ns[TRACE_OP_BACKWARD_INPUT] = input_ns;
    load.time_ns[TRACE_OP_BACKWARD_WEIGHT] = weight_ns;
    require(trace_writer_put_load(writer, &load, &why));
}

static trace_reader *finish_and_read(trace_writer *writer, trace_columns columns)
{
    trace_reader *reader = NULL;
    const int64_t trace_id = trace_writer_id(writer);
    require(trace_writer_finish(writer, &why));
    require(trace_reader_open(store, trace_id, columns, memory, &reader, &why));
    return reader;
}

WITH_STORE(a_sample_holds_until_the_next)
{
    trace_writer *writer = begin("t", NULL);
    put(writer, 4, 0, TRACE_MEAN, 10, 20, 30);
    put(writer, 4, 1, TRACE_MEAN, 11, 21, 31);
    put(writer, 7, 1, TRACE_MEAN, 12, 22, TRACE_NOT_RECORDED);
    put(writer, 7, 0, TRACE_MEAN, 13, 23, 33);
    trace_reader *reader = finish_and_read(writer, TRACE_COLUMNS_RECORDED);
    const bal_cost_source source = trace_reader_source(reader);
    bal_layer_costs costs;
    bool changed = false;

    assert_int_equal(source.layer_count, 2);
    assert_int_equal(source.iteration_count, 8);
    static const struct {
        int iteration;
        int64_t forward_of_layer_1_ns;
        bool changed;
    } expected[] = {{0, 11, true},        {3, 11, false}, {4, 11, false},
                    {6, 11, false},       {7, 12, true},  {8, 12, false},
                    {1000000, 12, false}, {5, 11, true},  {5, 11, false}};
    for (size_t at = 0; at < sizeof expected / sizeof expected[0]; at++) {
        require(source.costs_at(source.context, expected[at].iteration, &costs, &changed, &why));
        assert_int_equal(costs.forward_ns[1], expected[at].forward_of_layer_1_ns);
        assert_int_equal(changed, expected[at].changed);
    }
    assert_true(costs.has_split);
    assert_int_equal(costs.microbatch_count, 1);
    assert_null(costs.parameters);
    assert_null(costs.activation_bytes);
    require(source.costs_at(source.context, 7, &costs, &changed, &why));
    assert_int_equal(costs.backward_input_ns[1], 22);
    assert_int_equal(costs.backward_weight_ns[1], 0); // no W ran: the layer is frozen
    assert_int_equal(costs.backward_weight_ns[0], 33);

    int sample = -1;
    require(trace_next_sample(store, 1, -1, &sample, &why));
    assert_int_equal(sample, 4);
    require(trace_next_sample(store, 1, 4, &sample, &why));
    assert_int_equal(sample, 7);
    require(trace_next_sample(store, 1, 7, &sample, &why));
    assert_int_equal(sample, -1);
}

WITH_STORE(microbatches_are_columns_or_their_mean)
{
    trace_info info = trace_info_default();
    info.microbatch_count = 3;
    trace_writer *writer = begin("t", &info);
    put(writer, 0, 0, 0, 10, 1, 2);
    put(writer, 0, 0, 1, 13, 1, 2); // microbatch 2 was not recorded at all
    put(writer, 0, 1, 0, 5, 1, 2);  // and layer 1 was skipped in microbatch 1
    const int64_t trace_id = trace_writer_id(writer);
    trace_reader *reader = finish_and_read(writer, TRACE_COLUMNS_RECORDED);
    bal_layer_costs costs;
    bool changed = false;

    require(trace_reader_costs_at(reader, 0, &costs, &changed, &why));
    assert_int_equal(costs.microbatch_count, 3);
    const int64_t recorded_ns[] = {10, 13, 12, 5, 0, 3}; // means 11.5 and 2.5, halves up
    assert_memory_equal(costs.forward_ns, recorded_ns, sizeof recorded_ns);

    require(trace_reader_open(store, trace_id, TRACE_COLUMNS_MEAN, memory, &reader, &why));
    require(trace_reader_costs_at(reader, 0, &costs, &changed, &why));
    assert_int_equal(costs.microbatch_count, 1);
    assert_int_equal(costs.forward_ns[0], 12);
    assert_int_equal(costs.forward_ns[1], 3);
}

WITH_STORE(a_full_backward_stays_one_unless_a_split_is_assumed)
{
    for (int assumed = 0; assumed < 2; assumed++) {
        trace_info info = trace_info_default();
        info.embedding = true;
        if (assumed) info.backward_split = 0.25;
        trace_writer *writer = begin(assumed ? "split" : "full", &info);
        for (int layer = 0; layer < 2; layer++) {
            trace_load load = trace_load_init(0, layer, TRACE_MEAN);
            load.time_ns[TRACE_OP_FORWARD] = 50;
            load.time_ns[TRACE_OP_BACKWARD] = 102;
            load.time_ns[TRACE_OP_RECOMPUTE] = 40;
            require(trace_writer_put_load(writer, &load, &why));
        }
        put(writer, 0, 2, TRACE_MEAN, 1, 2, 3); // told apart for this layer only
        trace_reader *reader = finish_and_read(writer, TRACE_COLUMNS_RECORDED);
        bal_layer_costs costs;
        bool changed = false;

        require(trace_reader_costs_at(reader, 0, &costs, &changed, &why));

        const int64_t input_ns[2][3] = {{142, 142, 5}, {40, 66, 2}}; // 0.25 * 102 = 25.5
        const int64_t weight_ns[2][3] = {{0, 0, 0}, {102, 76, 3}};
        assert_int_equal(costs.has_split, assumed);
        assert_memory_equal(costs.backward_input_ns, input_ns[assumed], sizeof input_ns[0]);
        assert_memory_equal(costs.backward_weight_ns, weight_ns[assumed], sizeof weight_ns[0]);
    }
}

WITH_STORE(puts_for_one_row_complete_each_other)
{
    trace_writer *writer = begin("t", NULL);
    trace_load load = trace_load_init(0, 0, 2);
    load.time_ns[TRACE_OP_FORWARD] = 5;
    load.communication_ns = 1;
    load.span_ns = 7;
    require(trace_writer_put_load(writer, &load, &why));
    load = trace_load_init(0, 0, 2);
    load.time_ns[TRACE_OP_BACKWARD_INPUT] = 6;
    load.communication_ns = 2;
    require(trace_writer_put_load(writer, &load, &why));

    load = trace_load_init(0, 0, 2);
    load.time_ns[TRACE_OP_FORWARD] = 9;
    assert_fails(trace_writer_put_load(writer, &load, &why), STATUS_INVALID,
                 "iteration 0 microbatch 2 layer 0: F is given twice");
    load = trace_load_init(0, 0, 2);
    load.time_ns[TRACE_OP_BACKWARD] = 9;
    assert_fails(trace_writer_put_load(writer, &load, &why), STATUS_INVALID,
                 "iteration 0 microbatch 2 layer 0: a full backward (BW) beside B or W");
    load = trace_load_init(0, 0, 2);
    load.span_ns = TRACE_VALUE_MAX - 6;
    assert_fails(trace_writer_put_load(writer, &load, &why), STATUS_INVALID,
                 "iteration 0 microbatch 2 layer 0: the sum of span_ns exceeds 2^53");
    load = trace_load_init(0, 0, TRACE_MEAN);
    assert_fails(trace_writer_put_load(writer, &load, &why), STATUS_INVALID,
                 "iteration 0 layer 0: a mean over microbatches and single "
                 "microbatches cannot stand in one trace");
    load = trace_load_init(0, TRACE_LAYERS_MAX, 0);
    assert_fails(trace_writer_put_load(writer, &load, &why), STATUS_INVALID,
                 "layer 65536 is outside [0, 65535]");
    load = trace_load_init(0, 1, 0);
    load.span_ns = TRACE_VALUE_MAX + 1;
    assert_fails(trace_writer_put_load(writer, &load, &why), STATUS_INVALID,
                 "span_ns 9007199254740993 is outside [0, 9007199254740992]");

    const int64_t trace_id = trace_writer_id(writer);
    require(trace_writer_finish(writer, &why));
    trace_load *loads = NULL;
    int count = 0;
    require(trace_loads_at(store, trace_id, 0, &loads, &count, &why));
    assert_int_equal(count, 1);
    assert_int_equal(loads[0].microbatch, 2);
    assert_int_equal(loads[0].time_ns[TRACE_OP_FORWARD], 5);
    assert_int_equal(loads[0].time_ns[TRACE_OP_BACKWARD_INPUT], 6);
    assert_int_equal(loads[0].time_ns[TRACE_OP_BACKWARD_WEIGHT], TRACE_NOT_RECORDED);
    assert_int_equal(loads[0].communication_ns, 3);
    assert_int_equal(loads[0].span_ns, 7);
    free(loads);
}

WITH_STORE(properties_are_known_only_if_every_layer_has_them)
{
    trace_writer *writer = begin("t", NULL);
    for (int layer = 0; layer < 2; layer++) {
        const trace_layer properties = {layer, 100 + layer, layer == 0 ? 7 : TRACE_NOT_RECORDED, 8};
        trace_load load = trace_load_init(0, layer, 0);
        load.time_ns[TRACE_OP_FORWARD] = 1;
        load.activation_bytes = 30;
        require(trace_writer_put_layer(writer, &properties, &why));
        require(trace_writer_put_load(writer, &load, &why));
    }
    assert_fails(trace_writer_put_layer(writer, &(trace_layer){1, 1, 1, 1}, &why), STATUS_INVALID,
                 "layer 1: its properties are given twice");
    put(writer, 1, 0, 0, 1, 1, 1); // a forward without activation_bytes
    trace_reader *reader = finish_and_read(writer, TRACE_COLUMNS_RECORDED);
    bal_layer_costs costs;
    bool changed = false;

    require(trace_reader_costs_at(reader, 0, &costs, &changed, &why));
    assert_int_equal(costs.parameters[1], 101);
    assert_int_equal(costs.message_bytes[0], 8);
    assert_null(costs.state_bytes);
    assert_int_equal(costs.activation_bytes[1], 30);
    require(trace_reader_costs_at(reader, 1, &costs, &changed, &why));
    assert_null(costs.activation_bytes);
}

WITH_STORE(only_complete_traces_are_found_by_name)
{
    trace_info info;
    assert_fails(trace_find(store, NULL, memory, &info, &why), STATUS_INVALID,
                 ":memory:: holds no complete trace");
    trace_writer *first = begin("pruning-a", NULL);
    put(first, 3, 0, 0, 1, 1, 1);
    put(first, 5, 0, 0, 1, 1, 1);
    require(trace_writer_finish(first, &why));
    trace_writer *second = begin("moe", NULL);
    put(second, 0, 0, 0, 1, 1, 1);

    require(trace_find(store, NULL, memory, &info, &why));
    assert_string_equal(info.name, "pruning-a");
    assert_int_equal(info.first_iteration, 3);
    assert_int_equal(info.last_iteration, 5);
    assert_int_equal(info.iteration_count, 2);
    assert_fails(trace_find(store, "moe", memory, &info, &why), STATUS_INVALID,
                 ":memory:: trace 'moe' is not complete: it is still being written");
    assert_fails(trace_find(store, "pruning", memory, &info, &why), STATUS_INVALID,
                 ":memory:: no trace 'pruning'; did you mean 'pruning-a'?");
    require(trace_find(store, "1", memory, &info, &why));
    assert_string_equal(info.name, "pruning-a");
    trace_writer *third = NULL;
    trace_info again = trace_info_default();
    again.name = "pruning-a";
    assert_fails(trace_writer_begin(store, &again, &third, &why), STATUS_INVALID,
                 ":memory:: has a trace 'pruning-a' already (complete)");

    trace_writer_abort(second);
    trace_info *traces = NULL;
    int count = 0;
    require(trace_list(store, memory, &traces, &count, &why));
    assert_int_equal(count, 1);
}

WITH_STORE(a_trace_without_loads_or_outside_its_counts_is_not_finished)
{
    trace_info *traces = NULL;
    int count = -1;
    assert_fails(trace_writer_finish(begin("t", NULL), &why), STATUS_INVALID,
                 "no load of any layer was recorded");
    trace_writer *writer = begin("t", NULL);
    put(writer, 0, TRACE_LAYERS_MAX - 1, TRACE_MICROBATCHES_MAX - 1, 1, 1, 1);
    assert_fails(trace_writer_finish(writer, &why), STATUS_INVALID,
                 "65536 layers x 1048576 microbatches exceed 67108864");

    require(trace_list(store, memory, &traces, &count, &why));
    assert_int_equal(count, 0);
}

WITH_STORE(timelines_come_back_by_rank_and_begin)
{
    trace_writer *writer = begin("t", NULL);
    put(writer, 0, 0, 0, 1, 1, 1);
    const trace_op ops[] = {
        {1, 0, TRACE_OP_SEND_BACKWARD, 1, TRACE_NOT_RECORDED, 2, 50, 60, TRACE_NOT_RECORDED, 0, 0,
         0},
        {0, 0, TRACE_OP_FORWARD, 0, 3, 2, 30, 40, 9, 0, 0, 0},
        {0, 0, TRACE_OP_OPTIMIZER_STEP, -1, -1, -1, 10, 20, -1, 0, 0, 0},
        {0, 1, TRACE_OP_FORWARD, 0, 3, 2, 1, 2, 1, 0, 0, 0},
    };
    for (int op = 0; op < 4; op++) {
        require(trace_writer_put_op(writer, &ops[op], &why));
    }
    const trace_op backwards = {0, 0, TRACE_OP_FORWARD, 0, 0, 0, 5, 4, -1, 0, 0, 0};
    assert_fails(trace_writer_put_op(writer, &backwards, &why), STATUS_INVALID,
                 "rank 0 iteration 0 F: ends at 4 before it begins at 5");
    const trace_op late = {0, 0, TRACE_OP_FORWARD, 0, 0, 0, 5, TRACE_CLOCK_MAX + 1, -1, 0, 0, 0};
    assert_fails(trace_writer_put_op(writer, &late, &why), STATUS_INVALID,
                 "end_ns 2305843009213693953 is outside [-2305843009213693952, "
                 "2305843009213693952]");
    const int64_t trace_id = trace_writer_id(writer);
    require(trace_writer_finish(writer, &why));

    trace_op *read = NULL;
    int count = 0;
    require(trace_ops(store, trace_id, 0, memory, &read, &count, &why));
    assert_int_equal(count, 3);
    assert_int_equal(read[0].kind, TRACE_OP_OPTIMIZER_STEP);
    assert_int_equal(read[0].microbatch, TRACE_NOT_RECORDED);
    assert_int_equal(read[1].busy_ns, 9);
    assert_int_equal(read[2].rank, 1);
    assert_int_equal(read[2].kind, TRACE_OP_SEND_BACKWARD);
    assert_int_equal(read[2].stage, 1);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
