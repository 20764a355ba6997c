/// Recorded ops: read from CSV and Chrome JSON alike, stored and read back, refused by place.
#include "base/text.h"
#include "tests/traces/memory_store.h"
#include "traces/import/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "dp_rank,stage,step,optype,start_ts,duration,mc,mb_id,gmc\n";

static status read_text(const char *text, const char *columns, trace_op_table *table,
                        error_message *err)
{
    trace_stream *stream = NULL;
    require(trace_stream_open_bytes("f", text, strlen(text), &stream));
    const status result = trace_ops_read(stream, "f", columns, memory, table, err);
    trace_stream_close(stream);
    return result;
}

static void assert_refused(const char *rows, const char *message)
{
    char text[1000];
    trace_op_table table = {.op_count = -7};
    snprintf(text, sizeof text, "%s%s", head, rows);
    assert_fails(read_text(text, NULL, &table, &why), STATUS_FORMAT, message);
    assert_int_equal(table.op_count, -7);
}

WITH_STORE(rows_become_ops_by_worker_and_begin)
{
    trace_op_table table;
    char text[1000];
    snprintf(text, sizeof text,
             "%s1,0,4,backward-compute,2.5,0.25,0,3,0\r\n\n"
             "1,0,4,forward-compute,0.000001,1e-3,0,3,0\n"
             "0,1,4,tp-sync,0,0.5,-1,-1,0\n",
             head);

    require(read_text(text, NULL, &table, &why));

    assert_int_equal(table.op_count, 3);
    assert_int_equal(table.replica_count, 2);
    assert_int_equal(table.stage_count, 2);
    assert_int_equal(table.chunk_count, 1);
    assert_int_equal(table.name_count, 3);
    assert_string_equal(table.names[table.ops[0].name - 1], "tp-sync");
    assert_int_equal(trace_op_table_at(&table, 0).kind, TRACE_OP_LOCAL);
    assert_int_equal(table.ops[0].rank, 1);
    assert_int_equal(table.ops[0].layer, TRACE_NOT_RECORDED);
    assert_int_equal(trace_op_table_at(&table, 1).kind, TRACE_OP_FORWARD);
    assert_int_equal(table.ops[1].rank, 2);
    assert_int_equal(table.ops[1].begin_ns, 1000);
    assert_int_equal(table.ops[1].end_ns, 1001000);
    assert_int_equal(table.ops[1].microbatch, 3);
    assert_int_equal(table.ops[1].layer, 0);
    assert_int_equal(trace_op_table_at(&table, 2).kind, TRACE_OP_BACKWARD);
    assert_int_equal(table.ops[2].end_ns, 2750000000);
    free(table.ops);
}

WITH_STORE(columns_and_units_are_mapped)
{
    trace_op_table table;

    require(
        read_text("it,op,t0,dt,stage\n0,forward,1.5,2,0\n0,forward,2001.5,2,0\n0,ends,9000,1,0\n",
                  "step=it,kind=op,start_us=t0,duration_ms=dt", &table, &why));

    assert_int_equal(table.ops[0].begin_ns, 1500);
    assert_int_equal(table.ops[0].end_ns, 2001500);
    assert_int_equal(table.ops[0].microbatch, 0); // counted, in the order in which they ran
    assert_int_equal(table.ops[1].microbatch, 1);
    assert_int_equal(trace_op_table_at(&table, 2).kind, TRACE_OP_ENDS);
    free(table.ops);
}

WITH_STORE(events_of_a_chrome_trace_are_the_same_rows)
{
    trace_op_table table;
    static const char json[] =
        "{\"traceEvents\":[\n"
        " {\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":\"x\"}},\n"
        " {\"ph\":\"X\",\"name\":\"other\",\"ts\":0,\"dur\":1},\n"
        " {\"ph\":\"X\",\"name\":\"forward-compute\",\"ts\":10.5,\"dur\":2,"
        "\"args\":{\"step\":3,\"stage\":1,\"dp_rank\":2,\"microbatch\":5}}\n]}";

    require(read_text(json, NULL, &table, &why));

    assert_int_equal(table.op_count, 1);
    assert_int_equal(table.ops[0].iteration, 3);
    assert_int_equal(table.ops[0].replica, 2);
    assert_int_equal(table.ops[0].microbatch, 5);
    assert_int_equal(table.ops[0].begin_ns, 10500);
    assert_int_equal(table.ops[0].end_ns, 12500);
    free(table.ops);
}

/// Reads 40 steps of 20 workers with 3 ops each; in place p stands row p * stride, modulo their
/// number.
static void read_rows(int stride, trace_op_table *table)
{
    enum { STEPS = 40, WORKERS = 20, OPS = 3, ROWS = STEPS * WORKERS * OPS };
    static const char *const names[OPS] = {"forward", "local", "backward"};
    text_buffer text = {0};
    text_append(&text, head);
    for (int place = 0; place < ROWS; place++) {
        const int row = (int)((int64_t)place * stride % ROWS);
        const int op = row % OPS;
        text_format(&text, "%d,%d,%d,%s,%d.5,1,0,0,%060d\n", row / OPS % WORKERS / 2, row / OPS % 2,
                    row / OPS / WORKERS, names[op], op, row);
    }
    require(read_text(text.bytes, NULL, table, &why));
    text_free(&text);
}

WITH_STORE(rows_in_any_order_are_the_same_ops)
{
    static const int strides[] = {2399, 7, 49, 1201}; // prime to the number of rows
    trace_op_table sorted;
    read_rows(1, &sorted);
    for (size_t each = 0; each < sizeof strides / sizeof strides[0]; each++) {
        trace_op_table table;
        read_rows(strides[each], &table);
        assert_int_equal(table.op_count, sorted.op_count);
        for (int64_t op = 0; op < table.op_count; op++) {
            const trace_op wanted = trace_op_table_at(&sorted, op);
            const trace_op found = trace_op_table_at(&table, op);
            assert_int_equal(found.iteration, wanted.iteration);
            assert_int_equal(found.rank, wanted.rank);
            assert_int_equal(found.kind, wanted.kind);
            assert_int_equal(found.begin_ns, wanted.begin_ns);
        }
        free(table.ops);
    }
    free(sorted.ops);
}

WITH_STORE(ops_that_are_equal_stay_as_they_stand)
{
    trace_op_table table;
    char text[1000];
    snprintf(text, sizeof text,
             "%s0,0,5,forward-compute,0,1,0,0,0\n0,0,4,forward-compute,0,1,0,0,0\n"
             "0,0,4,b,2,1,0,0,0\n0,0,4,c,2,1,0,0,0\n0,0,4,a,2,1,0,0,0\n0,0,4,d,1,1,0,0,0\n",
             head);

    require(read_text(text, NULL, &table, &why));

    static const char *const wanted[] = {"forward-compute", "d", "b", "c", "a", "forward-compute"};
    for (int op = 0; op < 6; op++) {
        assert_string_equal(table.names[table.ops[op].name - 1], wanted[op]);
    }
    free(table.ops);
}

WITH_STORE(what_is_stored_is_read_back)
{
    trace_op_table table;
    trace_op_table again;
    trace_writer *writer = NULL;
    trace_info info = trace_info_default();
    char text[1000];
    info.name = "t";
    snprintf(text, sizeof text,
             "%s0,0,4,forward-compute,0,1,0,0,0\n1,0,4,forward-compute,0,3,0,0,0\n"
             "1,0,4,backward-compute,4,2,0,0,0\n",
             head);
    require(read_text(text, NULL, &table, &why));

    require(trace_writer_begin(store, &info, &writer, &why));
    require(trace_op_table_put(writer, &table, &why));
    require(trace_writer_finish(writer, &why));

    require(trace_find(store, "t", memory, &info, &why));
    require(trace_op_table_get(store, &info, memory, &again, &why));
    assert_int_equal(again.op_count, table.op_count);
    assert_memory_equal(again.ops, table.ops, 3 * sizeof *table.ops);
    assert_int_equal(again.replica_count, 2);
    assert_string_equal(again.names[1], "backward-compute");
    trace_load *loads = NULL;
    int count = 0;
    require(trace_loads_at(store, info.trace_id, 4, &loads, &count, &why));
    assert_int_equal(count, 1);
    assert_int_equal(loads[0].time_ns[TRACE_OP_FORWARD], 2000000000); // the mean over the replicas
    assert_int_equal(loads[0].time_ns[TRACE_OP_BACKWARD], 2000000000);
    free(loads);
    free(table.ops);
}

WITH_STORE(a_trace_of_layers_is_no_run_of_ops)
{
    trace_op_table table;
    trace_writer *writer = NULL;
    trace_info info = trace_info_default();
    trace_load load = trace_load_init(0, 0, TRACE_MEAN);
    info.name = "layers";
    load.time_ns[TRACE_OP_FORWARD] = 1;
    require(trace_writer_begin(store, &info, &writer, &why));
    require(trace_writer_put_load(writer, &load, &why));
    require(trace_writer_finish(writer, &why));
    require(trace_find(store, "layers", memory, &info, &why));

    assert_fails(trace_op_table_get(store, &info, memory, &table, &why), STATUS_INVALID,
                 ":memory:: trace 'layers' does not hold every op of a run by rank, stage "
                 "and microbatch: dynmo import ops and dynmo run --record make such traces");
}

WITH_STORE(bad_rows_are_refused_by_place)
{
    assert_refused("", "f: holds no op");
    assert_refused("0,0,4,f,0,1,0,0\n", "f:2: has 8 cells, the header names 9 columns");
    assert_refused("0,0,4,,0,1,0,0,0\n", "f:2: optype is empty");
    assert_refused("0,x,4,f,0,1,0,0,0\n", "f:2: stage: 'x' is not an integer");
    assert_refused("0,-1,4,f,0,1,0,0,0\n", "f:2: stage: -1 is outside [0, 65535]");
    assert_refused("0,0,4,f,x,1,0,0,0\n", "f:2: start_ts: 'x' is no number or too large");
    assert_refused("0,0,4,f,-1,1,0,0,0\n",
                   "f:2: start_ts: -1 is outside [0, 2296835809958952960 ns]");
    assert_refused("0,0,4,f,2296835810,1,0,0,0\n",
                   "f:2: start_ts: 2296835810 is outside [0, 2296835809958952960 ns]");
    assert_refused("0,0,4,f,0,86401,0,0,0\n",
                   "f:2: duration: 86401 is outside [0, 86400000000000 ns]");
    assert_refused("0,0,4,f,0,1,0,0,0\n0,0,4,f,0,1,1024,0,0\n",
                   "f:3: mc: 1024 is outside [-1, 1023]");
    assert_refused("0,0,4,f,0,1,0,0,0\n", "f: none of its 1 kinds of ops is a forward or backward");
    assert_refused("0,0,4,f,0,1,0,0,0\n0,0,4,f,0,1,4294967296,0,0\n",
                   "f:3: mc: 4294967296 is outside [-1, 1023]");
    assert_refused("60000,60000,4,f,0,1,0,0,0\n",
                   "f: 60001 replicas x 60001 stages x 1 chunks: at most 65536 workers and 65536 "
                   "parts of the model are read");
    assert_refused("0,0,4,forward-compute,0,1,0,0,0\n0,0,4,forward-compute,1,1,0,0,0\n",
                   "f:3: forward-compute of step 4, replica 0, stage 0, chunk 0, microbatch 0 "
                   "stands twice, first in 2: one row per worker and op is read");
}

WITH_STORE(bad_headers_and_columns_are_refused)
{
    trace_op_table table;
    assert_fails(read_text("", NULL, &table, &why), STATUS_FORMAT, "f:1: is empty");
    assert_fails(read_text("step,stage\n", NULL, &table, &why), STATUS_FORMAT,
                 "f:1: column optype (kind) is missing");
    assert_fails(read_text("step,step\n", NULL, &table, &why), STATUS_FORMAT,
                 "f:1: column step is named twice");
    assert_fails(read_text("", "stepp=x", &table, &why), STATUS_INVALID,
                 "columns: unknown 'stepp'; did you mean 'step'?");
    assert_fails(read_text("", "step", &table, &why), STATUS_INVALID,
                 "columns: not 'name=column,...'");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
