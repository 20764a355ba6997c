#include "cli/output.h"

#include "base/file.h"

enum { ARENA_BLOCK_BYTES = 1 << 20 };

status cli_print(const text_buffer *out, error_message *err)
{
    return file_write("-", out->bytes, out->length, err);
}

status cli_run_printer(const cli_arguments *arguments, cli_printer print, error_message *err)
{
    arena *memory = arena_create(ARENA_BLOCK_BYTES);
    text_buffer out = {0};
    status result = print(arguments, memory, &out, err);
    if (result == STATUS_OK) result = cli_print(&out, err);
    text_free(&out);
    arena_destroy(memory);
    return result;
}
