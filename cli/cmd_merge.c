/// `dynmo merge`: joins the stores of shards.
#include "analysis/shards/kept_run.h"
#include "base/arena.h"
#include "base/json.h"
#include "cli/commands.h"

#include <inttypes.h>
#include <stdio.h>

static void write_json(const ana_merged *merged, const char *store, text_buffer *out)
{
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "name", merged->name);
    json_put_int64(&writer, "shards", merged->shard_count);
    json_put_int64(&writer, "items", merged->item_count);
    json_put_string(&writer, "store", store);
    json_line_end(&writer);
}

static status merge(const cli_arguments *arguments, arena *memory, text_buffer *out,
                    error_message *err)
{
    const char *store = cli_value(arguments, "--output");
    ana_merged merged;
    TRY(cli_require(arguments, "--output", err));
    TRY(ana_shards_merge(store, cli_operands(arguments), cli_operand_count(arguments), memory,
                         &merged, err));
    fprintf(stderr, "the command of the shards, with --store %s and without --shard, answers\n",
            store);
    if (cli_has(arguments, "--json")) {
        write_json(&merged, store, out);
    } else {
        text_format(out, "%s: %d shards, %" PRId64 " results, in %s\n", merged.name,
                    merged.shard_count, merged.item_count, store);
    }
    return STATUS_OK;
}

const cli_command cli_command_merge = {
    .name = "merge",
    .synopsis = "-o ALL.db SHARD.db... [--json]",
    .summary = "joins the stores of shards",
    .description =
        "Joins what `dynmo study` or `dynmo converge` with --shard i/N kept in stores, one or "
        "several shards in each, into the store ALL.db. The same command with --store ALL.db and "
        "without --shard then answers as one run alone does."
        "\n\n"
        "Stores without a shard of the same question are refused (exit 2). If shards are missing "
        "or not complete, they are named and nothing is written (exit 1).",
    .options = {{"--output", "ALL.db", .is_output = true, .letter = 'o',
                 .help = "The store to write to; made where there is none."},
                {"--json", .help = "Prints one line of JSON."}},
    .operand_min = 1,
    .operand_max = CLI_OPERANDS_MAX,
    .run = merge,
};
