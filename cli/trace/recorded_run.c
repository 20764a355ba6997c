#include "cli/trace/recorded_run.h"

#include "base/file.h"

static status write_run(const cli_arguments *arguments, trace_store *store,
                        cli_recorded_writer write, arena *memory, text_buffer *out,
                        error_message *err)
{
    ana_recorded recorded;
    TRY(ana_recorded_open(store, cli_value(arguments, "--run"), memory, &recorded, err));
    const status result = write(arguments, store, &recorded, memory, out, err);
    ana_recorded_close(&recorded);
    return result;
}

status cli_write_recorded(const cli_arguments *arguments, cli_recorded_writer write,
                          error_message *err)
{
    trace_store *store = NULL;
    text_buffer out = {0};
    const char *output = cli_value(arguments, "--output");
    arena *memory = arena_create(1 << 20);
    status result = trace_store_open(cli_operand(arguments, 0), TRACE_READ, &store, err);
    if (result == STATUS_OK) result = write_run(arguments, store, write, memory, &out, err);
    if (result == STATUS_OK) {
        result = file_write(output != NULL ? output : "-", out.bytes, out.length, err);
    }
    text_free(&out);
    trace_store_close(store);
    arena_destroy(memory);
    return result;
}
