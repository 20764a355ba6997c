/// `dynmo stragglers`: what slowed a recorded run.
#include "cli/commands.h"

#include "analysis/stragglers/causes.h"
#include "base/file.h"
#include "cli/option_values.h"
#include "traces/store/op_table.h"

/// --layers: how many each stage has, one number per stage.
static status read_layers(const cli_arguments *arguments, arena *memory, int **layers, int *count,
                          error_message *err)
{
    const char *text = cli_value(arguments, "--layers");
    if (text == NULL) return STATUS_OK;
    int64_t *values = arena_array(memory, TRACE_RANKS_MAX, sizeof *values);
    TRY(cli_list_int64("--layers", text, 1, TRACE_LAYERS_MAX, values, TRACE_RANKS_MAX, count, err));
    *layers = arena_array(memory, (size_t)*count, sizeof **layers);
    for (int stage = 0; stage < *count; stage++) {
        (*layers)[stage] = (int)values[stage];
    }
    return STATUS_OK;
}

/// --step: its place among the steps of the run; by default the slowest.
static status find_step(const cli_arguments *arguments, const ana_stragglers *of, int *place,
                        error_message *err)
{
    const ana_op_run *run = &of->run;
    int wanted = 0;
    TRY(cli_int(arguments, "--step", 0, TRACE_ITERATIONS_MAX, -1, &wanted, err));
    *place = ana_slowest_step(of);
    if (wanted < 0) return STATUS_OK;
    for (*place = 0; *place < run->step_count; ++*place) {
        if (run->steps[*place].step == wanted) return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "--step: %d is none of the %d steps, %d to %d", wanted,
                     run->step_count, run->steps[0].step, run->steps[run->step_count - 1].step);
}

/// What --timeline and --heat-map ask for.
static status write_pictures(const cli_arguments *arguments, const ana_stragglers *of,
                             arena *memory, error_message *err)
{
    static const char *const options[] = {"--timeline", "--heat-map"};
    int step = 0;
    TRY(find_step(arguments, of, &step, err));
    for (int picture = 0; picture < 2; picture++) {
        const char *path = cli_value(arguments, options[picture]);
        text_buffer out = {.memory = memory};
        if (path == NULL) continue;
        if (picture == 0) ana_straggler_timelines(of, step, &out);
        if (picture == 1) ana_straggler_heat_map(of, &out);
        TRY(file_write(path, out.bytes, out.length, err));
    }
    return STATUS_OK;
}

static status print(const cli_arguments *arguments, arena *memory, text_buffer *out,
                    error_message *err)
{
    ana_stragglers stragglers;
    int *layers = NULL;
    int layer_count = 0;
    TRY(read_layers(arguments, memory, &layers, &layer_count, err));
    TRY(ana_stragglers_read(cli_operand(arguments, 0), cli_value(arguments, "--trace"), layers,
                            layer_count, memory, &stragglers, err));
    TRY(write_pictures(arguments, &stragglers, memory, err));
    if (cli_has(arguments, "--json")) {
        ana_stragglers_write(&stragglers, out);
    } else {
        ana_stragglers_print(&stragglers, out);
    }
    return STATUS_OK;
}

const cli_command cli_command_stragglers = {
    .name = "stragglers",
    .synopsis = "RUN.db [--trace NAME] [--layers L,...] [--timeline FILE.json [--step N]] "
                "[--heat-map FILE.svg] [--json]",
    .summary = "says what slowed a recorded run, and what mending it would gain",
    .description =
        "Replays a run of which every op was recorded (dynmo import ops, dynmo run --record) as it "
        "would have been without stragglers: every op at the mean of its kind, messages and "
        "collectives at the median. The slowdown of a kind, stage, replica or worker is that of a "
        "run in which only its ops keep their own time."
        "\n\n"
        "Then the causes, largest gain first, each with its evidence and what a replay gains where "
        "it is mended, with a 95 % interval over the steps: a slow worker, a stage too long (with "
        "the split that mends it), sequence lengths, pauses of the host, a slow link. A cause is "
        "named where the low end of its gain reaches 2 %.",
    .options =
        {
            {"--trace", "NAME",
             .help = "Name or number of the trace. Default: the one begun last."},
            {"--layers", "L,...",
             .help =
                 "Layers that each stage has, where the trace does not tell: the gain of a stage "
                 "too long is then that of a split of whole layers, which is told."},
            {"--timeline", "FILE.json", .is_output = true,
             .help = "Writes a step as recorded, ideal, and with the named causes mended, for "
                     "ui.perfetto.dev."},
            {"--step", "N", .help = "That step. Default: the slowest."},
            {"--heat-map", "FILE.svg", .is_output = true,
             .help = "Writes the slowdown of every worker as a picture."},
            {"--json", .help = "Prints one line of JSON."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = print,
};
