/// csv and stream: every refusal with file, line and column, damaged gzip data, and what a good
/// file becomes. Rows are written out; nothing is read from disk.
#include "tests/test.h"
#include "tests/traces/memory_store.h"
#include "traces/import/csv.h"
#include "traces/store/catalog.h"
#include "traces/store/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static trace_csv *begin(void)
{
    trace_csv *csv = NULL;
    trace_info info = trace_info_default();
    info.name = "t";
    require(trace_csv_begin(store, &info, &csv, &why));
    return csv;
}

static status read_bytes(trace_csv *csv, const char *name, const void *bytes, size_t length,
                         error_message *err)
{
    trace_stream *stream = NULL;
    require(trace_stream_open_bytes(name, bytes, length, &stream));
    const status result = trace_csv_read(csv, stream, err);
    trace_stream_close(stream);
    return result;
}

static void assert_store_is_empty(void)
{
    trace_info *traces = NULL;
    int count = -1;
    require(trace_list(store, memory, &traces, &count, &why));
    assert_int_equal(count, 0);
}

static void assert_refused(const void *bytes, size_t length, const char *message)
{
    trace_csv *csv = begin();

    assert_fails(read_bytes(csv, "t.csv", bytes, length, &why), STATUS_FORMAT, message);
    assert_int_equal(why.code, STATUS_FORMAT);
    trace_csv_abort(csv);
    assert_store_is_empty();
}

WITH_STORE(bad_heads_are_refused)
{
    static const struct {
        const char *bytes;
        const char *message;
    } cases[] = {
        {"", "t.csv:1: the first line is not '# dynmo-trace/1'"},
        {"# dynmo-trace/2\n", "t.csv:1: the first line is not '# dynmo-trace/1'"},
        {"\xef\xbb\xbf# dynmo-trace/1\n", "t.csv:1: the first line is not '# dynmo-trace/1'"},
        {"# dynmo-trace/1\n", "t.csv:2: ends before the row that names the columns"},
        {"# dynmo-trace/1\n# device\n", "t.csv:2: '# device' is not '# key=value'"},
        {"# dynmo-trace/1\n# =cpu\n", "t.csv:2: a key is missing before '='"},
        {"# dynmo-trace/1\n# device=tpu\n", "t.csv:2: device: 'tpu' is neither cpu nor cuda"},
        {"# dynmo-trace/1\n# head=2\n", "t.csv:2: head: 2 is outside [0, 1]"},
        {"# dynmo-trace/1\n# head=\n", "t.csv:2: head: '' is not an integer"},
        {"# dynmo-trace/1\n# head=1\n# head=1\n", "t.csv:3: head is given twice"},
        {"# dynmo-trace/1\n# microbatches=0\n", "t.csv:2: microbatches: 0 is outside [1, 1048576]"},
        {"# dynmo-trace/1\niteration,layer,phase\n", "t.csv:2: column busy_ns is missing"},
        {"# dynmo-trace/1\niteration,layer,phase,busy_n\n",
         "t.csv:2: unknown column 'busy_n'; did you mean 'busy_ns'?"},
        {"# dynmo-trace/1\niteration,layer,phase,busy_ns,\n",
         "t.csv:2: unknown column ''; known: iteration, layer, phase, busy_ns, microbatch, rank, "
         "start_ns, span_ns, communication_ns, activation_bytes, parameters, message_bytes"},
        {"# dynmo-trace/1\niteration,layer,layer\n", "t.csv:2: column layer is named twice"},
    };
    for (size_t at = 0; at < sizeof cases / sizeof cases[0]; at++) {
        assert_refused(cases[at].bytes, strlen(cases[at].bytes), cases[at].message);
    }
}

WITH_STORE(bad_rows_are_refused)
{
    static const struct {
        const char *row;
        const char *reason;
    } cases[] = {
        {"0,0,0,F,-5,\n", "busy_ns: -5 is outside [0, 9007199254740992]"},
        {"0,0,0,F,nan,\n", "busy_ns: 'nan' is not an integer"},
        {"0,0,0,F,1.5,\n", "busy_ns: '1.5' is not an integer"},
        {"0,0,0,F,1e3,\n", "busy_ns: '1e3' is not an integer"},
        {"0,0,0,F,+1,\n", "busy_ns: '+1' is not an integer"},
        {"0,0,0,F, 1,\n", "busy_ns: ' 1' is not an integer"},
        {"0,0,0,F,-,\n", "busy_ns: '-' is not an integer"},
        {"0,0,0,F,\"1\",\n", "busy_ns: '\"1\"' is not an integer"},
        {"0,0,0,F,10000000000000000000,\n",
         "busy_ns: 10000000000000000000 is outside [0, 9007199254740992]"},
        {"0,0,0,F,9007199254740993,\n",
         "busy_ns: 9007199254740993 is outside [0, 9007199254740992]"},
        {"0,0,0,F,,\n", "busy_ns is empty"},
        {"0,0,,F,1,\n", "layer is empty"},
        {"0,0,65536,F,1,\n", "layer: 65536 is outside [0, 65535]"},
        {"2000000001,0,0,F,1,\n", "iteration: 2000000001 is outside [0, 2000000000]"},
        {"0,1048576,0,F,1,\n", "microbatch: 1048576 is outside [0, 1048575]"},
        {"0,0,0,X,1,\n", "phase: 'X' is none of F, B, W, BW, R"},
        {"0,0,0,f,1,\n", "phase: 'f' is none of F, B, W, BW, R"},
        {"0,0,0,F,1\n", "has 5 cells, the header names 6 columns"},
        {"0,0,0,F,1,,\n", "has 7 cells, the header names 6 columns"},
        {"\n", "iteration is empty"},
        {"0,0,0,F,1,", "ends without a line feed: the file is truncated"},
        {"7,0,3,F,1,\n", "iteration 7 microbatch 0 layer 3: F is given twice"},
        {"7,0,3,BW,1,\n", "iteration 7 microbatch 0 layer 3: a full backward (BW) beside B or W"},
        {"7,,4,F,1,\n", "iteration 7 layer 4: a mean over microbatches and single microbatches "
                        "cannot stand in one trace"},
        {"8,0,3,F,1,6\n", "parameters: 6 contradicts 5 of an earlier row of layer 3"},
    };
    for (size_t at = 0; at < sizeof cases / sizeof cases[0]; at++) {
        char bytes[400];
        char message[400];
        snprintf(bytes, sizeof bytes,
                 "# dynmo-trace/1\niteration,microbatch,layer,phase,busy_ns,parameters\n"
                 "7,0,3,F,1,5\n7,0,3,W,1,\n%s",
                 cases[at].row);
        snprintf(message, sizeof message, "t.csv:5: %s", cases[at].reason);
        assert_refused(bytes, strlen(bytes), message);
    }
}

WITH_STORE(times_of_clocks_are_limited)
{
    static const char late[] = "# dynmo-trace/1\niteration,layer,phase,busy_ns,start_ns,span_ns\n"
                               "0,0,F,1,2296835809958952961,1\n";
    assert_refused(late, sizeof late - 1,
                   "t.csv:3: start_ns: 2296835809958952961 is outside [0, 2296835809958952960]");
}

WITH_STORE(lines_hold_no_zero_byte)
{
    static const char zero[] = "# dynmo-trace/1\n# a=b\0c\n";
    assert_refused(zero, sizeof zero - 1, "t.csv:2: holds a zero byte");
}

static size_t deflate_gzip(const char *text, unsigned char *out, size_t capacity)
{
    z_stream deflater = {0};
    assert_int_equal(deflateInit2(&deflater, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    deflater.next_in = (unsigned char *)(uintptr_t)text;
    deflater.avail_in = (uInt)strlen(text);
    deflater.next_out = out;
    deflater.avail_out = (uInt)capacity;
    assert_int_equal(deflate(&deflater, Z_FINISH), Z_STREAM_END);
    const size_t length = capacity - deflater.avail_out;
    deflateEnd(&deflater);
    return length;
}

static const char small[] = "# dynmo-trace/1\niteration,layer,phase,busy_ns\n"
                            "0,0,F,100\n0,1,F,200\n0,0,BW,300\n";

WITH_STORE(damaged_gzip_data_is_refused)
{
    unsigned char bytes[512];
    const size_t length = deflate_gzip(small, bytes, sizeof bytes);
    for (size_t kept = 2; kept < length; kept++) { // also within the checksum at the end
        assert_refused(bytes, kept, "t.csv: gzip data ends early: the file is truncated");
    }
    bytes[length - 6] ^= 1; // in the checksum
    char message[100];
    snprintf(message, sizeof message,
             "t.csv: corrupt gzip data (incorrect data check) after byte %zu", length - 4);
    assert_refused(bytes, length, message);
    bytes[length - 6] ^= 1;
    memcpy(bytes + length, "tail", 4);
    snprintf(message, sizeof message,
             "t.csv: corrupt gzip data (incorrect header check) after byte %zu", length + 2);
    assert_refused(bytes, length + 4, message);
}

WITH_STORE(plain_and_gzip_and_gzip_in_pieces_are_the_same)
{
    unsigned char whole[512];
    unsigned char pieces[1024];
    const size_t whole_length = deflate_gzip(small, whole, sizeof whole);
    char head[32] = "";
    memcpy(head, small, 20);
    size_t pieces_length = deflate_gzip(head, pieces, sizeof pieces);
    pieces_length +=
        deflate_gzip(small + 20, pieces + pieces_length, sizeof pieces - pieces_length);
    const struct {
        const void *bytes;
        size_t length;
    } forms[] = {{small, strlen(small)}, {whole, whole_length}, {pieces, pieces_length}};
    for (int form = 0; form < 3; form++) {
        trace_csv *csv = begin();
        int64_t trace_id = 0;
        trace_info info;
        trace_load *loads = NULL;
        int count = 0;

        require(read_bytes(csv, "t.csv", forms[form].bytes, forms[form].length, &why));
        require(trace_csv_finish(csv, &trace_id, NULL, &why));

        require(trace_by_id(store, trace_id, memory, &info, &why));
        assert_int_equal(info.layer_count, 2);
        assert_int_equal(info.microbatch_columns, 1);
        assert_false(info.has_split);
        require(trace_loads_at(store, trace_id, 0, &loads, &count, &why));
        assert_int_equal(loads[0].time_ns[TRACE_OP_FORWARD], 100);
        assert_int_equal(loads[0].time_ns[TRACE_OP_BACKWARD], 300);
        assert_int_equal(loads[0].time_ns[TRACE_OP_BACKWARD_INPUT], TRACE_NOT_RECORDED);
        free(loads);
        close_memory_store(NULL);
        open_memory_store(NULL);
    }
}

WITH_STORE(the_files_of_two_ranks_make_one_trace)
{
    static const char rank_0[] =
        "# dynmo-trace/1\r\n# source = a run\r\n# device=cuda\n# torch=2.1\n"
        "# embedding=1\n# tokens_per_microbatch=64\n# microbatches=2\n"
        "phase,busy_ns,iteration,layer,microbatch,rank,start_ns,span_ns,"
        "communication_ns,activation_bytes,parameters,message_bytes\n"
        "W,30,1,0,0,0,1795000000000000000,33,,,,\r\n"
        "F,10,1,0,0,0,1794999999999999000,12,2,640,1000,128\n"
        "F,10,1,0,1,0,,,,640,1000,\n";
    static const char rank_1[] = "# dynmo-trace/1\n# source=another\n# device=cuda\n# torch=2.2\n"
                                 "iteration,layer,phase,busy_ns,microbatch,communication_ns\n"
                                 "1,1,R,7,1,\n1,1,B,20,1,5\n1,1,F,11,1,1\n";
    static const char other[] = "# dynmo-trace/1\n# device=cpu\n";
    trace_csv *csv = begin();
    int64_t trace_id = 0;

    require(read_bytes(csv, "r0.csv", rank_0, strlen(rank_0), &why));
    require(read_bytes(csv, "r1.csv", rank_1, strlen(rank_1), &why));
    require(trace_csv_finish(csv, &trace_id, NULL, &why));

    trace_info info;
    require(trace_find(store, "t", memory, &info, &why));
    assert_string_equal(info.device, "cuda");
    assert_string_equal(info.recorded_by, "a run");
    assert_int_equal(info.tokens_per_microbatch, 64);
    assert_int_equal(info.microbatch_count, 2);
    assert_true(info.embedding && !info.head && info.has_split);
    assert_int_equal(info.split, TRACE_MEASURED);
    assert_int_equal(info.parameters, TRACE_MEASURED);
    trace_layer *layers = NULL;
    int layer_count = 0;
    require(trace_layers(store, &info, memory, &layers, &layer_count, &why));
    assert_int_equal(layer_count, 2);
    assert_int_equal(layers[0].parameters, 1000);
    assert_int_equal(layers[0].message_bytes, 128);
    assert_int_equal(layers[1].parameters, TRACE_NOT_RECORDED);
    trace_op *ops = NULL;
    int count = 0;
    require(trace_ops(store, trace_id, 1, memory, &ops, &count, &why));
    assert_int_equal(count, 2); // the ones with rank, start and span
    assert_int_equal(ops[0].kind, TRACE_OP_FORWARD);
    assert_true(ops[1].end_ns == INT64_C(1795000000000000033));
    trace_load *loads = NULL;
    require(trace_loads_at(store, trace_id, 1, &loads, &count, &why));
    assert_int_equal(loads[2].layer, 1);
    assert_int_equal(loads[2].time_ns[TRACE_OP_RECOMPUTE], 7);
    assert_int_equal(loads[2].communication_ns, 6);
    free(loads);

    csv = NULL;
    trace_info second = trace_info_default();
    second.name = "u";
    require(trace_csv_begin(store, &second, &csv, &why));
    require(read_bytes(csv, "r0.csv", rank_0, strlen(rank_0), &why));
    assert_fails(read_bytes(csv, "r1.csv", other, strlen(other), &why), STATUS_FORMAT,
                 "r1.csv:2: device=cpu contradicts device=cuda of an earlier file");
    trace_csv_abort(csv);
}

WITH_STORE(a_file_without_rows_or_with_too_few_microbatches_is_refused)
{
    static const char none[] = "# dynmo-trace/1\niteration,layer,phase,busy_ns\n";
    static const char few[] = "# dynmo-trace/1\n# microbatches=2\n"
                              "iteration,layer,phase,busy_ns,microbatch\n0,0,F,1,2\n";
    trace_csv *csv = begin();

    require(read_bytes(csv, "t.csv", none, strlen(none), &why));
    assert_fails(trace_csv_finish(csv, NULL, NULL, &why), STATUS_INVALID,
                 "no load of any layer was recorded");
    assert_store_is_empty();
    assert_refused(few, strlen(few), "t.csv:4: microbatch 2 is outside [0, 1]");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
