/// `dynmo stragglers`: what slowed a recorded run.
#include "cli/commands.h"

#include "analysis/stragglers/stragglers.h"
#include "cli/output.h"
#include "traces/store/op_table.h"

static status read_run(const cli_arguments *arguments, arena *memory, trace_op_table *table,
                       ana_op_run *run, error_message *err)
{
    trace_store *store = NULL;
    trace_info info;
    TRY(trace_store_open(cli_operand(arguments, 0), TRACE_READ, &store, err));
    status result = trace_find(store, cli_value(arguments, "--trace"), memory, &info, err);
    if (result == STATUS_OK) result = trace_op_table_get(store, &info, memory, table, err);
    trace_store_close(store);
    TRY(result);
    return ana_op_run_make(table, memory, run, err);
}

static status print(const cli_arguments *arguments, arena *memory, text_buffer *out,
                    error_message *err)
{
    trace_op_table table;
    ana_op_run run;
    ana_slowdowns slowdowns;
    TRY(read_run(arguments, memory, &table, &run, err));
    ana_slowdowns_of(&run, memory, &slowdowns);
    if (cli_has(arguments, "--json")) {
        ana_stragglers_write(&run, &slowdowns, out);
    } else {
        ana_stragglers_print(&run, &slowdowns, out);
    }
    return STATUS_OK;
}

static status run(const cli_arguments *arguments, error_message *err)
{
    return cli_run_printer(arguments, print, err);
}

const cli_command cli_command_stragglers = {
    .name = "stragglers",
    .synopsis = "RUN.db [--trace NAME] [--json]",
    .summary = "says what slowed a recorded run, and what mending it would gain",
    .description =
        "Replays a run of which every op was recorded (dynmo import ops) as it would have been "
        "without stragglers: every op at the mean of its kind, messages and collectives at the "
        "median. The slowdown of a kind, stage, replica or worker is that of a run in which only "
        "its ops keep their own time; launch delays are left out of all of them. worker_share and "
        "stage_share say what mending only the slowest 3 % of the workers, or only the last stage, "
        "wins of what is lost.",
    .options =
        {
            {.name = "--trace",
             .argument = "NAME",
             .help = "Name or number of the trace. Default: the one begun last."},
            {.name = "--json", .help = "Prints one line of JSON."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
