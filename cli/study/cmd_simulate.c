/// `dynmo simulate`: replays a study under each of its balancers and compares them.
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/version.h"

#include "analysis/compare/compare.h"
#include "analysis/report/recording.h"
#include "analysis/study/setup.h"
#include "analysis/study/study_keys.h"

/// @param recording where rows go while they are played, or NULL
static status compare(const ana_setup *setup, const ana_listener *recording, arena *memory,
                      ana_comparison *comparison, error_message *err)
{
    cli_progress progress = cli_progress_begin(
        "iterations", (int64_t)setup->study->balancing_count * setup->iteration_count);
    ana_listener listener = recording != NULL ? *recording : (ana_listener){0};
    listener.step = cli_progress_step;
    listener.step_context = &progress;
    const status result = ana_compare(setup, &listener, memory, comparison, err);
    cli_progress_end(&progress);
    return result;
}

/// Plays the rows into a store.
static status compare_recorded(const cli_arguments *arguments, const ana_setup *setup,
                               trace_store *store, arena *memory, ana_comparison *comparison,
                               error_message *err)
{
    ana_recording *recording = NULL;
    TRY(ana_recording_begin(store, TRACE_RUN_SIM, setup, cli_command_line(arguments), DYNMO_VERSION,
                            memory, &recording, err));
    const ana_listener listener = ana_recording_listener(recording);
    const status played = compare(setup, &listener, memory, comparison, err);
    return ana_recording_finish(recording, comparison, played, err);
}

/// A store that is written to closes after the trace, which may be in it: the last to close it
/// tidies.
static status play(const cli_arguments *arguments, const ana_setup *setup, arena *memory,
                   ana_comparison *comparison, error_message *err)
{
    const char *path = cli_value(arguments, "--store");
    trace_store *store = NULL;
    if (path == NULL) return compare(setup, NULL, memory, comparison, err);
    TRY(trace_store_open_within(path, TRACE_WRITE, memory, &store, err));
    return compare_recorded(arguments, setup, store, memory, comparison, err);
}

static status run(const cli_arguments *arguments, arena *memory, text_buffer *out,
                  error_message *err)
{
    ana_study study;
    ana_setup setup;
    ana_comparison comparison;
    if (cli_has(arguments, "--keys")) {
        ana_study_keys_print(out);
        return STATUS_OK;
    }
    if (cli_operand_count(arguments) == 0) {
        return error_set(err, STATUS_INVALID,
                         "dynmo simulate: needs a study; --keys lists what may stand in it");
    }
    TRY(ana_study_open(cli_operand(arguments, 0), cli_value(arguments, "--trace"), memory, &study,
                       err));
    status result = ana_setup_open(&study, NULL, memory, &setup, err);
    if (result == STATUS_OK) result = play(arguments, &setup, memory, &comparison, err);
    if (result != STATUS_OK) return error_about(err, result, study.path);
    (cli_has(arguments, "--json") ? ana_comparison_write : ana_comparison_print)(&comparison, out);
    return STATUS_OK;
}

const cli_command cli_command_simulate = {
    .name = "simulate",
    .synopsis = "STUDY.json|--keys [--trace TRACE.db] [--store RUN.db] [--json]",
    .summary = "replays a training run under several balancers and compares them",
    .description =
        "Replays every iteration of the run that the study describes, once for each entry of its "
        "'balancing': stage costs from the trace or the model, the schedule played with them, the "
        "controller's decisions, and the migrations that follow. Prints the rows side by side; "
        "then what was decided, why and at what cost (--json: each move), the GPUs that re-packing "
        "releases, each speed-up as a product (the algorithm's own saving, static tuning, dynamic "
        "balancing, re-packing), and the inputs with where each comes from."
        "\n\n"
        "Every row starts from its balancer's own plan for iteration 0. A policy says when it "
        "decides again: `never`; `on-change`, after each iteration whose loads have changed; "
        "`every:N`, after every N-th; `threshold:x`, where the predicted iteration gets shorter by "
        "more than the share x; `shadow`, when waiting has cost what moving costs. A decision is "
        "in force from the next iteration on. It looks at the iteration that has just ended "
        "(information profile), or at the next one itself (foresight, which no run has: a row with "
        "it beside one without says what knowing ahead would be worth)."
        "\n\n"
        "A study is JSON with the schema \"dynmo-study/1\"; --keys lists every key, what it may "
        "be, its default and what it does. Needed are schema, pipeline.stages, and a trace or a "
        "model with hardware; what stands in for the rest is listed with the result. Paths are "
        "relative to the study's folder."
        "\n\n"
        "A stage is data x tensor x context GPUs; expert x expert_tensor of them hold the experts "
        "of a layer. Without a case of dynamism a trace's changes are detected; models/DYNAMISM.md "
        "tells the parameters of each case. Without balancing: even, tuned, and diffusion, "
        "partition and makespan on-change."
        "\n\n"
        "Re-packing: throughput keeps the fewest ranks whose iteration is within the tolerance of "
        "that of all, gpu-time the least ranks x time within it. published, coded, first-fit, "
        "best-fit, round-robin and halving look at memory. replicate: further replicas share the "
        "global batch.",
    .options =
        {
            {"--trace", "TRACE.db", .help = "Takes costs from this store instead of the study's."},
            {"--store", "RUN.db", .is_store = true,
             .help =
                 "Adds the run to this store, which may be the trace's: every iteration, every "
                 "plan, the timelines of the "
                 "first and last iteration. `dynmo report` and `dynmo export perfetto` read it."},
            {"--keys", .help = "Lists every key of a study instead."},
            {"--json", .help = "Prints one line of JSON."},
        },
    .operand_min = 0,
    .operand_max = 1,
    .run = run,
};
