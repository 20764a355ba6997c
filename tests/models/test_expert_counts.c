/// expert_counts: both formats read by hand-made text, and everything that is refused, with its
/// file and line.
#include "base/file.h"
#include "models/experts/expert_counts.h"
#include "tests/test_memory.h"
#include "traces/store/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// Three layers, the first dense, of two experts; two microbatches.
static const bool is_moe[] = {false, true, true};
static const model_counts_shape shape = {
    .layer_count = 3, .is_moe = is_moe, .expert_count = 2, .microbatch_count = 2};

#define HEADER "iteration,layer,microbatch,expert_0,expert_1\n"
#define FULL_ROWS "4,1,0,1,9\n4,1,1,2,8\n4,2,0,3,7\n4,2,1,4,6\n"
#define LINE(iter, layer, tpe)                                                                     \
    "{\"iter\":" #iter ",\"block\":\"decoder\",\"layer\":" #layer ",\"tpe\":" tpe "}\n"

typedef status (*reader)(const char *path, const model_counts_shape *of,
                         model_expert_counts *counts);

static status read_stage(const model_count_stage *stage, model_expert_counts *counts)
{
    return model_expert_counts_read_megatron(stage, 1, &shape, memory, counts, &why);
}

static status read_megatron(const char *path, const model_counts_shape *of,
                            model_expert_counts *counts)
{
    const model_count_stage stage = {.paths = &path, .path_count = 1};
    return model_expert_counts_read_megatron(&stage, 1, of, memory, counts, &why);
}

static status read_csv(const char *path, const model_counts_shape *of, model_expert_counts *counts)
{
    return model_expert_counts_read_csv(path, of, memory, counts, &why);
}

/// Files are called by one letter, in a folder of the test's own.
static char folder[] = P_tmpdir "/dynmo-counts-XXXXXX";

static int go_to_folder(void **state)
{
    return open_memory(state) != 0 || mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int leave_folder(void **state)
{
    unlink("f");
    unlink("g");
    return close_memory(state) != 0 || chdir("/") != 0 || rmdir(folder) != 0;
}

static void write_file(const char *path, const char *bytes, size_t length)
{
    FILE *file = fopen(path, "w"); // file_write refuses what the process has read
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void refused(reader read, const model_counts_shape *of, const char *text,
                    const char *message)
{
    model_expert_counts counts = {.sample_count = -7};
    write_file("f", text, strlen(text));
    assert_fails(read("f", of, &counts), STATUS_FORMAT, message);
    assert_int_equal(why.code, STATUS_FORMAT);
    assert_int_equal(counts.sample_count, -7);
}

static model_expert_counts accepted(reader read, const model_counts_shape *of, const char *text)
{
    model_expert_counts counts;
    write_file("f", text, strlen(text));
    require(read("f", of, &counts));
    return counts;
}

TEST(what_is_wrong_in_a_csv_is_named_with_its_line)
{
    const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "f:1: empty file"},
        {HEADER, "f: no tokens per expert in it"},
        {"iteration,layer,expert_0\n", "f:1: column 3 is 'expert_0', expected 'microbatch' (2 "
                                       "experts)"},
        {"iteration,layer,microbatch,expert_0\n",
         "f:1: column 5 is '', expected 'expert_1' (2 experts)"},
        {"iteration,layer,microbatch,expert_0,expert_1,expert_2\n",
         "f:1: column 'expert_2' beyond the 2 experts of the model"},
        {HEADER "4,1,0,1\n", "f:2: 4 columns, expected 5"},
        {HEADER "4,1,0,1,2,3\n", "f:2: more than 5 columns"},
        {HEADER "4,1,0,-1,2\n", "f:2: expert_0: -1 is outside [0, 2147483647]"},
        {HEADER "4,1,0,nan,2\n", "f:2: expert_0: 'nan' is not an integer"},
        {HEADER "4,1,0,1.5,2\n", "f:2: expert_0: '1.5' is not an integer"},
        {HEADER "4,1,0,10000000000000000000,2\n",
         "f:2: expert_0: 10000000000000000000 is outside [0, 2147483647]"},
        {HEADER "4,1,0,,2\n", "f:2: expert_0: '' is not an integer"},
        {HEADER "\n", "f:2: iteration: '' is not an integer"},
        {HEADER "-4,1,0,1,2\n", "f:2: iteration: -4 is outside [0, 2147483646]"},
        {HEADER "4,3,0,1,2\n", "f:2: layer: 3 is outside [0, 2]"},
        {HEADER "4,0,0,1,2\n", "f:2: layer 0 of the model has no experts"},
        {HEADER "4,1,2,1,2\n", "f:2: microbatch: 2 is outside [0, 1]"},
        {HEADER "4,1,0,0,0\n", "f:2: no expert of layer 1 has a token"},
        {HEADER "4,1,0,1,2\n4,1,0,1,2\n", "f:3: iteration 4, layer 1, microbatch 0 occurs twice"},
        {HEADER "4,1,0,1,2\n4,1,1,1,2\n4,2,0,1,2\n", "f: iteration 4 lacks layer 2, microbatch 1"},
        {HEADER FULL_ROWS "5,1,0,1,2\n", "f: iteration 5 lacks layer 1, microbatch 1"},
    };
    for (size_t at = 0; at < sizeof cases / sizeof cases[0]; at++) {
        refused(read_csv, &shape, cases[at].text, cases[at].message);
    }
}

TEST(a_stated_number_of_tokens_holds_for_every_row)
{
    model_counts_shape stated = shape;
    stated.row_tokens = 10;
    accepted(read_csv, &stated, HEADER FULL_ROWS);
    refused(read_csv, &stated, HEADER "4,1,0,1,8\n",
            "f:2: the experts of layer 1, microbatch 0 have 9 tokens together, 10 were routed");
}

/// Counts of eight iterations of a model of eight layers with two experts, one microbatch each.
///
/// @param total [8][8] of iteration and layer
static const char *totals_csv(int total[8][8], char *text)
{
    int length = sprintf(text, HEADER);
    for (int iteration = 0; iteration < 8; iteration++) {
        for (int layer = 0; layer < 8; layer++) {
            length += sprintf(text + length, "%d,%d,0,%d,%d\n", iteration, layer, 10 + layer,
                              total[iteration][layer] - 10 - layer);
        }
    }
    return text;
}

/// @param kind 0: all alike; 1: dropped by capacity; 2: every fourth layer has them all; 3: tokens
///             leave after the first layer, in one iteration; 4: the last quarter is of another
///             replica; 5: one count is wrong
static void fill_totals(int kind, int total[8][8])
{
    for (int cell = 0; cell < 64; cell++) {
        const int iteration = cell / 8;
        const int layer = cell % 8;
        int value = 100 + iteration;
        if (kind == 1 && layer % 3 > 0) value -= layer * 7 % 5;
        if (kind == 2 && layer % 4 == 2) value *= 2;
        if (kind == 3 && iteration == 5 && layer > 0) value -= 30;
        if (kind == 4 && layer >= 6) value += iteration * 5 % 8 - 3;
        if (kind == 5 && iteration == 5 && layer == 3) value *= 9;
        total[iteration][layer] = value;
    }
}

TEST(a_total_above_that_of_the_other_layers_is_refused_and_no_total_that_can_be)
{
    static const bool all_moe[8] = {true, true, true, true, true, true, true, true};
    const model_counts_shape deep = {
        .layer_count = 8, .is_moe = all_moe, .expert_count = 2, .microbatch_count = 1};
    char text[4096];
    int total[8][8];
    for (int kind = 0; kind < 5; kind++) {
        fill_totals(kind, total);
        accepted(read_csv, &deep, totals_csv(total, text));
    }
    fill_totals(5, total);
    refused(read_csv, &deep, totals_csv(total, text),
            "f: the experts of iteration 5, layer 3, microbatch 0 have 945 tokens together, those "
            "of most layers 105");
}

TEST(lines_of_megatron_pass_over_other_blocks)
{
    const model_expert_counts counts = accepted(
        read_megatron, &shape,
        LINE(7, 1, "[[1,2],[3,4]]") "\n"
                                    "{\"iter\":7,\"block\":\"mtp\",\"mtp_idx\":0,\"layer\":1,"
                                    "\"tpe\":[[50,50]]}\n" LINE(7, 2, "[[5,6],[7,8]]"));

    assert_int_equal(counts.sample_count, 1);
    assert_int_equal(counts.iteration[0], 7);
    assert_int_equal(model_expert_counts_row(&counts, 0, 1, 1)[0], 3);
    assert_int_equal(model_expert_counts_row(&counts, 0, 2, 1)[1], 8);
}

TEST(repetitions_of_recomputation_are_dropped)
{
    const model_expert_counts counts = accepted(
        read_megatron, &shape,
        LINE(7, 1, "[[1,2],[3,4],[1,2],[3,4]]") LINE(7, 2, "[[1,2],[1,2],[1,2],[1,2]]")
            LINE(8, 1, "[[1,2],[1,2],[3,4],[3,4]]") LINE(8, 2, "[[5,5],[6,6],[5,5],[6,6]]"));

    for (int sample = 0; sample < 2; sample++) {
        assert_int_equal(model_expert_counts_row(&counts, sample, 1, 0)[0], 1);
        assert_int_equal(model_expert_counts_row(&counts, sample, 1, 1)[0], 3);
    }
    assert_int_equal(model_expert_counts_row(&counts, 1, 2, 1)[1], 6);
    refused(read_megatron, &shape, LINE(7, 1, "[[1,2],[3,4],[5,6],[7,8]]"),
            "f:1: 4 microbatches are not 2 that recomputation has repeated");
}

TEST(what_is_wrong_in_lines_of_megatron_is_named)
{
    const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "f: no tokens per expert in it"},
        {LINE(7, 1, "[[1,2],[3,4]]") "{\"iter\":7,\"blo", "f:2: the file ends within a line"},
        {"{]\n", "f:1:1: not valid JSON"},
        {"[]\n", "f:1: not an object"},
        {"{}\n", "f:1: block: missing; needs a string"},
        {LINE(7, 1, "[[1,-2],[3,4]]"), "f:1: tpe[0][1]: -2 is outside [0, 2147483647]"},
        {LINE(7, 1, "[[1,NaN],[3,4]]"), "f:1:1: not valid JSON"},
        {LINE(7, 1, "[[1,10000000000000000000],[3,4]]"),
         "f:1:1: tpe: integer 10000000000000000000 exceeds 2^53 = 9007199254740992"},
        {LINE(7, 1, "[[1,2,3],[3,4,5]]"), "f:1: tpe[0]: has 3 entries, needs 2"},
        {LINE(7, 1, "[[1,2]]"),
         "f:1: 1 microbatches, the training has 2 (or twice as many lines with recomputation)"},
        {LINE(7, 1, "[]"), "f:1: tpe: not an array of microbatches"},
        {LINE(7, 9, "[[1,2],[3,4]]"), "f:1: layer 9, the model has 3"},
        {LINE(7, 0, "[[1,2],[3,4]]"), "f:1: layer 0 of the model has no experts"},
        {LINE(7, 1, "[[1,2],[3,4]]"), "f: iteration 7 lacks layer 2, microbatch 0"},
        {LINE(7, 1, "[[1,2],[3,4]]") LINE(7, 1, "[[1,2],[3,4]]"),
         "f:2: iteration 7, layer 1, microbatch 0 occurs twice"},
    };
    for (size_t at = 0; at < sizeof cases / sizeof cases[0]; at++) {
        refused(read_megatron, &shape, cases[at].text, cases[at].message);
    }
}

TEST(ranks_that_do_not_go_together_are_refused)
{
    const char *const both[] = {"f", "g"};
    const model_count_stage stage = {.first_layer = 1, .paths = both, .path_count = 2};
    const char *const second[] = {
        LINE(7, 1, "[[2],[4]]"),
        LINE(8, 0, "[[2],[4]]"),
        LINE(7, 0, "[[2],[4]]") LINE(7, 1, "[[2],[4]]"),
        "",
    };
    const char *const messages[] = {
        ":1: iteration 7, layer 1, 2 microbatches do not go with ",
        ":1: iteration 8, layer 0, 2 microbatches do not go with ",
        ":2: ends after the file of the first expert rank, ",
        ":1: ends before the file of the first expert rank, ",
    };
    for (int at = 0; at < 4; at++) {
        model_expert_counts counts;
        write_file("f", LINE(7, 0, "[[1],[3]]"), strlen(LINE(7, 0, "[[1],[3]]")));
        write_file("g", second[at], strlen(second[at]));
        assert_fails_naming(read_stage(&stage, &counts), STATUS_FORMAT, messages[at]);
    }
    const char *const three[] = {"f", "g", "g"};
    const model_count_stage odd = {.first_layer = 1, .paths = three, .path_count = 3};
    model_expert_counts counts;
    assert_fails_naming(read_stage(&odd, &counts), STATUS_FORMAT,
                        ": 3 files cannot share 2 experts");
    unlink("f");
    assert_int_equal(read_stage(&stage, &counts), STATUS_IO);
    assert_int_equal(read_csv("f", &shape, &counts), STATUS_IO);
}

TEST(bytes_that_are_no_text_are_refused)
{
    static const char zero[] = HEADER "4,1,0,\0,2\n";
    model_expert_counts counts;
    write_file("f", zero, sizeof zero - 1);
    assert_fails(read_csv("f", &shape, &counts), STATUS_FORMAT, "f:2: holds a zero byte");

    const size_t length = (size_t)TRACE_LINE_BYTES_MAX + 1;
    char *endless = memory_array(1, length);
    memset(endless, '7', length);
    write_file("f", endless, length);
    free(endless);
    assert_fails(read_csv("f", &shape, &counts), STATUS_FORMAT,
                 "f:1: is longer than 67108864 bytes");
    assert_int_equal(read_csv(P_tmpdir, &shape, &counts),
                     STATUS_IO); // a folder
}

int main(void)
{
    return run_all_tests(go_to_folder, leave_folder);
}
