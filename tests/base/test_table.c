/// Tables: what is read, and every way to be wrong.
#include "base/table.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <string.h>

static status read(const char *text, table *out, error_message *err)
{
    return table_open_bytes("t.csv", text, strlen(text), memory, out, err);
}

TEST(names_rows_and_lines_are_kept)
{
    table found;
    double value = 0;

    assert_int_equal(
        read("# source: a paper\n# GPUs , time (ms)\r\n\n 2, 1.5e1\n4,\t3 ", &found, NULL),
        STATUS_OK);

    assert_string_equal(found.source, "a paper");
    assert_int_equal(found.column_count, 2);
    assert_int_equal(found.row_count, 2);
    assert_int_equal(table_column(&found, "# gpus"), 0);
    assert_int_equal(table_column(&found, "Time (ms)"), 1);
    assert_int_equal(table_column(&found, "time"), -1);
    assert_string_equal(found.cells[2], "4");
    assert_int_equal(found.lines[1], 5);
    assert_int_equal(table_number(&found, 0, 1, 0, 100, &value, NULL), STATUS_OK);
    assert_int_equal((int)value, 15);
}

static void assert_refused(const char *text, const char *message)
{
    table found = {.row_count = -7};

    assert_fails(read(text, &found, &why), STATUS_FORMAT, message);
    assert_int_equal(found.row_count, -7);
}

TEST(what_is_no_table_is_refused)
{
    assert_refused("", "t.csv: no line with the names of columns");
    assert_refused("a,b\n", "t.csv: no row after the names of columns");
    assert_refused("a,b\n1,2\n3\n", "t.csv:3: 1 cells, but 2 columns are named");
    assert_refused("a,b\n1,2,3\n", "t.csv:2: 3 cells, but 2 columns are named");
    assert_refused("a,A\n1,2\n", "t.csv:1: two columns are named 'A'");
    assert_refused("a,\n1,2\n", "t.csv:1: a column has no name");
    assert_refused("a,b\n1,\"2\"\n", "t.csv:2: cells are not quoted here");
    assert_refused("a,b\n1,\x01\n", "t.csv:2: byte 0x01 is not text");
}

TEST(a_cell_that_is_no_number_is_named)
{
    static const struct {
        const char *cell;
        const char *message;
    } cases[] = {
        {"nan", "t.csv:2: b: 'nan' is not a number"},
        {"", "t.csv:2: b: '' is not a number"},
        {"-1", "t.csv:2: b: -1 is outside [0, 10]"},
        {"10000000000000000000", "t.csv:2: b: 10000000000000000000 is outside [0, 10]"},
        {"inf", "t.csv:2: b: 'inf' is not a number"},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        arena_reset(memory);
        table found;
        char text[64] = "a,b\n1,";
        double value = -7;
        strcat(text, cases[index].cell);
        require(read(text, &found, &why));

        assert_fails(table_number(&found, 0, 1, 0, 10, &value, &why), STATUS_FORMAT,
                     cases[index].message);
        assert_int_equal((int)value, -7);
    }
}

TEST(a_file_that_is_not_there_is_an_io_error)
{
    table found;

    assert_int_equal(table_open("no such folder/t.csv", memory, &found, NULL), STATUS_IO);
}

TEST(rows_are_written_as_they_were_read)
{
    const char *text = "# source: a book\na,# b\n1,x\n2,\n3, y\n";
    const int rows[] = {0, 2};
    table read;
    text_buffer written = {.memory = memory};

    assert_ok(table_open_bytes("t.csv", text, strlen(text), memory, &read, NULL));
    table_write(&read, rows, 2, &written);

    assert_string_equal(written.bytes, "# source: a book\na,# b\n1,x\n3,y\n");
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
