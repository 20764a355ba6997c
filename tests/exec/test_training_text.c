/// The text of a training run: what is refused, and that a microbatch's sequences depend on its key
/// alone.
#include "exec/training/training_text.h"
#include "tests/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 8, SEQUENCES = 3, ROWS = LENGTH * SEQUENCES };

static const exec_model model = {.sequence_length = LENGTH, .vocabulary = 256};

/// Writes a file of byte_count bytes 0, 1, 2, ... and returns its path, to be removed.
static void write_text(char path[64], size_t byte_count)
{
    snprintf(path, 64, "training_text.%ld.txt", (long)getpid());
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (size_t index = 0; index < byte_count; index++) {
        fputc((int)(index % 256), file);
    }
    assert_int_equal(fclose(file), 0);
}

TEST(a_missing_file_is_named)
{
    exec_training_text text = {0};

    assert_fails(exec_training_text_read("nowhere.txt", &model, 1, &text, &why), STATUS_IO,
                 "nowhere.txt: No such file or directory");
    assert_null(text.bytes);
}

static void read_refused(size_t byte_count, int token_bytes, int vocabulary, const char *expected)
{
    char path[64];
    char message[160];
    exec_training_text text = {0};
    const exec_model few = {.sequence_length = LENGTH, .vocabulary = vocabulary};
    write_text(path, byte_count);
    assert_int_equal(exec_training_text_read(path, &few, token_bytes, &text, &why), STATUS_INVALID);
    snprintf(message, sizeof message, "%s: %s", path, expected);
    assert_string_equal(why.message, message);
    remove(path);
}

TEST(texts_that_are_short_cut_or_unknown_are_refused)
{
    read_refused(0, 1, 256, "text has 0 bytes; a sequence of 8 tokens needs 9");
    read_refused(8, 1, 256, "text has 8 bytes; a sequence of 8 tokens needs 9");
    read_refused(17, 2, 65536, "text has 17 bytes; a sequence of 8 tokens needs 18");
    read_refused(19, 2, 65536, "19 bytes are no whole tokens of 2 bytes");
    read_refused(20, 1, 19, "token 19 is 19; the vocabulary has 19");
    read_refused(40, 4, 0x13121110 + 1, "token 5 is 387323156; the vocabulary has 319951121");
}

/// Tokens of so many bytes, of a text that holds one sequence.
static void draw_shortest(int token_bytes, int vocabulary, int *token, int *target)
{
    char path[64];
    exec_training_text text = {0};
    const exec_model of = {.sequence_length = LENGTH, .vocabulary = vocabulary};
    const exec_text_batch batch = {.seed = 1, .sequence_count = 1, .sequence_length = LENGTH};
    write_text(path, (size_t)token_bytes * (LENGTH + 1));
    assert_ok(exec_training_text_read(path, &of, token_bytes, &text, NULL));
    exec_training_text_draw(&text, &batch, token, target);
    exec_training_text_free(&text);
    assert_null(text.bytes);
    remove(path);
}

TEST(the_shortest_text_has_one_sequence_and_words_begin_with_the_little_end)
{
    int token[LENGTH];
    int target[LENGTH];
    draw_shortest(1, 256, token, target);
    for (int position = 0; position < LENGTH; position++) {
        assert_int_equal(token[position], position);
        assert_int_equal(target[position], position + 1);
    }
    draw_shortest(2, 65536, token, target);
    for (int position = 0; position < LENGTH; position++) {
        assert_int_equal(token[position], 2 * position + 256 * (2 * position + 1));
        assert_int_equal(target[position], token[position] + 2 + 512);
    }
}

TEST(targets_are_the_bytes_after_the_tokens)
{
    unsigned char bytes[200];
    for (int index = 0; index < 200; index++) {
        bytes[index] = (unsigned char)index;
    }
    const exec_training_text text = {.bytes = bytes, .token_count = sizeof bytes, .token_bytes = 1};
    for (int microbatch = 0; microbatch < 100; microbatch++) {
        const exec_text_batch batch = {.seed = 5,
                                       .microbatch = microbatch,
                                       .sequence_count = SEQUENCES,
                                       .sequence_length = LENGTH};
        int token[ROWS];
        int target[ROWS];

        exec_training_text_draw(&text, &batch, token, target);

        for (int row = 0; row < ROWS; row++) {
            assert_int_equal(target[row], token[row] + 1);
            if (row % LENGTH != 0) assert_int_equal(token[row], token[row - 1] + 1);
        }
    }
}

/// Tokens of a microbatch of a long text.
static void draw(uint64_t seed, int iteration, int microbatch, int *token)
{
    static unsigned char bytes[10000];
    for (size_t index = 0; index < sizeof bytes; index++) {
        bytes[index] = (unsigned char)(index * 2654435761u >> 13);
    }
    const exec_training_text text = {.bytes = bytes, .token_count = sizeof bytes, .token_bytes = 1};
    const exec_text_batch batch = {.seed = seed,
                                   .iteration = iteration,
                                   .microbatch = microbatch,
                                   .sequence_count = SEQUENCES,
                                   .sequence_length = LENGTH};
    int target[ROWS];
    exec_training_text_draw(&text, &batch, token, target);
}

TEST(a_text_is_made_from_the_seed_alone)
{
    enum { MADE = 5000 };
    const exec_model wide = {.sequence_length = LENGTH, .vocabulary = 100000, .seed = 7};
    const exec_model other = {.sequence_length = LENGTH, .vocabulary = 100000, .seed = 8};
    static int token[3][MADE * LENGTH], target[MADE * LENGTH];
    const exec_model *const models[] = {&wide, &wide, &other};
    int low_count = 0;

    for (int way = 0; way < 3; way++) {
        exec_training_text text;
        const exec_text_batch batch = {.sequence_count = MADE, .sequence_length = LENGTH};
        exec_training_text_make(models[way], &text);
        exec_training_text_draw(&text, &batch, token[way], target);
        exec_training_text_free(&text);
    }

    assert_memory_equal(token[0], token[1], sizeof token[0]);
    assert_memory_not_equal(token[0], token[2], sizeof token[0]);
    for (int row = 0; row < MADE * LENGTH; row++) {
        assert_in_range(token[0][row], 0, 99999);
        low_count += token[0][row] < 50000;
    }
    // Half of the bounds are below 50,000; of b above it tokens are with 50,000 / b: (1 + ln 2)
    // / 2.
    assert_close((double)low_count / (MADE * LENGTH), 0.8466, 0.02);
}

TEST(a_key_has_its_own_sequences_and_always_the_same)
{
    int first[ROWS];
    int again[ROWS];
    int other[3][ROWS];

    draw(1, 2, 3, first);
    draw(2, 2, 3, other[0]);
    draw(1, 3, 2, other[1]);
    draw(1, 2, 4, other[2]);
    draw(1, 2, 3, again);

    assert_memory_equal(first, again, sizeof first);
    for (int index = 0; index < 3; index++) {
        assert_memory_not_equal(first, other[index], sizeof first);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
