/// `dynmo run`: executes a plan or a study on real ranks.
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run/run_counts.h"
#include "cli/run/run_device.h"
#include "cli/run/run_outcome.h"
#include "cli/run/run_record.h"
#include "cli/run/run_request.h"
#include "cli/run/run_store.h"
#include "cli/run/run_study.h"

#include "base/arena.h"
#include "base/file.h"
#include "exec/run/execution.h"
#include "sim/training_plan.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { ARENA_BLOCK_BYTES = 1 << 20 };

/// A run, as the ranks of this process see it. Ranks that do not come back go on using it.
typedef struct run_state {
    cli_run_request requested;
    const cli_run_request *request; // the same
    int abandoned_rank_count;       // that have not come back
    atomic_bool leader_is_back;     // the rank that uses the record, the counts and the outcome
    const char *command_line;
    cli_run_study opened;
    cli_run_device device;
    bal_training training;
    bal_training predicted;  // the same for the predictor, which needs a source at any rate
    bal_cost_source unknown; // of a device that learns
    exec_training execution;
    exec_training_listener listener;
    arena *memory; // the leader's
    bool leads;    // this process does: it alone writes and prints
    sim_predictor *predictor;
    cli_run_record *record; // NULL: none
    cli_run_store *store;   // NULL: none
    cli_run_counts *counts; // NULL: none
    cli_run_outcome outcome;
    cli_progress progress;
} run_state;

static status put_iteration(void *context, const exec_measured *measured, error_message *err)
{
    run_state *state = context;
    cli_progress_step(&state->progress);
    TRY(cli_run_outcome_add(&state->outcome, measured, err));
    if (state->counts != NULL) TRY(cli_run_counts_put(state->counts, measured, err));
    return state->record != NULL ? cli_run_record_put(state->record, measured, err) : STATUS_OK;
}

static status run_rank(exec_endpoint *endpoint, void *context, error_message *err)
{
    run_state *state = context;
    bal_training_result *result = endpoint->rank == 0 ? &state->outcome.result : NULL;
    const status ended =
        exec_training_rank(endpoint, &state->execution, state->memory, result, err);
    if (endpoint->rank == 0) atomic_store(&state->leader_is_back, true);
    return ended;
}

/// What all ranks of this process need. Nothing is written yet.
static status prepare(run_state *state, error_message *err)
{
    const cli_run_request *request = state->request;
    TRY(cli_run_study_open(request, state->memory, &state->opened, err));
    const bal_record_sink none = {0};
    state->training = ana_setup_training(&state->opened.setup, state->opened.row, none);
    TRY(cli_run_device_init(&state->device, request, &state->opened, state->memory, err));
    if (request->learns) {
        state->training.sources = NULL;
        state->training.source_count = 0;
    }
    state->listener = (exec_training_listener){.context = state, .put = put_iteration};
    state->execution = (exec_training){
        .training = &state->training,
        .plan = state->opened.has_plan ? &state->opened.plan : NULL,
        .layer_count = state->device.layer_count,
        .devices = cli_run_device_maker(&state->device),
        .clock = request->clock,
        .slow_links = request->slow_links,
        .slow_link_count = request->slow_link_count,
        .time_scale_ppb = request->time_scale_ppb,
        .profiles_always = request->learns,
        .checkpoint_read = request->restart,
        .checkpoint_write = request->checkpoint,
        .checkpoint_every = request->checkpoint_every,
        .distributes_decisions = request->is_distributed,
        .listener = &state->listener,
    };
    return STATUS_OK;
}

/// What only the leading process needs: the predictor, the record, the outcome.
static status prepare_leader(run_state *state, error_message *err)
{
    const cli_run_request *request = state->request;
    state->predicted = state->training;
    if (request->learns) {
        state->unknown = (bal_cost_source){.layer_count = state->device.layer_count};
        state->predicted.sources = &state->unknown;
        state->predicted.source_count = 1;
    }
    TRY(sim_predictor_create(&state->predicted, &state->predictor, err));
    state->execution.evaluator = sim_predictor_evaluator(state->predictor);
    cli_run_outcome_init(&state->outcome, request, &state->opened, state->memory);
    if (request->checkpoint != NULL) TRY(file_check_writable(request->checkpoint, err));
    if (request->record != NULL) {
        TRY(cli_run_record_begin(request, &state->opened, state->command_line, &state->record,
                                 err));
    }
    if (request->store != NULL) {
        TRY(cli_run_store_begin(request, &state->opened, state->command_line, state->memory,
                                &state->store, err));
        state->training.sink = cli_run_store_sink(state->store);
    }
    return request->counts != NULL
               ? cli_run_counts_open(request, &state->device.model, &state->counts, err)
               : STATUS_OK;
}

static status execute(run_state *state, error_message *err)
{
    const cli_run_request *request = state->request;
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = state->training.machine.rank_count * state->training.data_parallel;
    options.watchdog_ns = request->watchdog_ns;
    options.real_time = request->is_real_time;
    options.interrupt = cli_interrupt_catch();
    options.abandoned_rank_count = &state->abandoned_rank_count;
    state->progress = cli_progress_begin("iterations", state->training.iteration_count);
    const status ended = exec_transport_run(request->transport, &options, run_rank, state, err);
    cli_progress_end(&state->progress);
    return ended;
}

/// Ends the files that were written while the run went on: also a run that failed keeps what was
/// recorded.
static status finish_files(run_state *state, status ended, error_message *err)
{
    error_message outcome = {0};
    error_message finish_err = {0};
    if (ended != STATUS_OK && err != NULL) outcome = *err;
    status finished = STATUS_OK;
    if (state->record != NULL) {
        finished =
            cli_run_record_finish(state->record, ended != STATUS_OK ? &outcome : NULL, &finish_err);
        state->record = NULL;
    }
    if (state->store != NULL) {
        const bool is_ok = ended == STATUS_OK;
        const status stored =
            cli_run_store_finish(state->store, is_ok ? &state->outcome.result : NULL,
                                 is_ok ? NULL : &outcome, &finish_err);
        if (finished == STATUS_OK) finished = stored;
        state->store = NULL;
    }
    if (state->counts != NULL) {
        const status closed = cli_run_counts_close(state->counts, &finish_err);
        if (finished == STATUS_OK) finished = closed;
        state->counts = NULL;
    }
    if (ended != STATUS_OK || finished == STATUS_OK) return ended;
    return error_set(err, finished, "%s", finish_err.message);
}

static status report(const cli_arguments *arguments, run_state *state, error_message *err)
{
    text_buffer out = {0};
    if (!state->request->learns && !state->opened.has_plan) {
        TRY(cli_run_outcome_replay(&state->outcome, &state->training, state->memory, err));
    }
    if (cli_has(arguments, "--json")) {
        cli_run_outcome_write(&state->outcome, &out);
    } else {
        cli_run_outcome_print(&state->outcome, &out);
    }
    const status printed = cli_print(&out, err);
    text_free(&out);
    return printed;
}

static status run_prepared(const cli_arguments *arguments, run_state *state, error_message *err)
{
    TRY(prepare(state, err));
    state->leads = exec_transport_is_leader(state->request->transport);
    status ended = state->leads ? prepare_leader(state, err) : STATUS_OK;
    if (ended == STATUS_OK) ended = execute(state, err);
    const bool has_run = state->abandoned_rank_count == 0 || atomic_load(&state->leader_is_back);
    if (state->leads && has_run) ended = finish_files(state, ended, err);
    if (ended == STATUS_OK && state->leads) ended = report(arguments, state, err);
    return ended;
}

static status run_and_free(const cli_arguments *arguments, run_state *state, error_message *err)
{
    const status ended = run_prepared(arguments, state, err);
    if (state->abandoned_rank_count > 0) return ended; // they end with the process
    cli_run_outcome_free(&state->outcome);
    sim_predictor_destroy(state->predictor);
    cli_run_device_free(&state->device);
    cli_run_study_close(&state->opened);
    arena_destroy(state->memory);
    free(state);
    return ended;
}

static status run_requested(const cli_arguments *arguments, const cli_run_request *request,
                            error_message *err)
{
    run_state *state = memory_array(1, sizeof *state);
    state->requested = *request;
    state->request = &state->requested;
    state->command_line = cli_command_line(arguments);
    state->memory = arena_create(ARENA_BLOCK_BYTES);
    if (state->memory == NULL) {
        free(state);
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    return run_and_free(arguments, state, err);
}

/// One process of a run speaks for all, also of what went wrong.
static status run(const cli_arguments *arguments, error_message *err)
{
    cli_run_request request;
    const char *transport = "mpi"; // as long as it is not known: as if a launcher had started it
    status ended = cli_run_request_read(arguments, &request, err);
    if (ended == STATUS_OK) {
        transport = request.transport;
        ended = run_requested(arguments, &request, err);
    }
    if (ended == STATUS_OK || exec_transport_is_leader(transport)) return ended;
    if (err != NULL) err->message[0] = '\0';
    exec_transport_let_leader_end(transport);
    return ended;
}

const cli_command cli_command_run = {
    .name = "run",
    .synopsis = "STUDY.json|PLAN.json [--device D] [--transport T] [--clock C] [OPTION...]",
    .summary = "executes a study or a plan on real ranks and compares with the simulation",
    .description =
        "Plays what `dynmo simulate` plays, on real ranks: the same controller decides, layers "
        "migrate in real messages, and every op is measured. Prints the time of the run beside "
        "what the simulator says of it, op by op, and what was learnt."
        "\n\n"
        "Devices: `timed` takes the time that the study's trace or model says; `cpu` trains a "
        "byte-level transformer, the study's model (gpt2 of 256 bytes), on a text; `cuda` the "
        "same on GPUs. Transports: `local` has a thread for each rank; `mpi` needs `mpirun -n "
        "RANKS dynmo run ... --transport mpi`, or srun; `nccl` the same with a GPU for each rank. "
        "RANKS are the study's stages times --data-parallel."
        "\n\n"
        "Clocks: `nominal` composes the given or measured durations of the ops as the simulator "
        "would, so that order, messages and decisions are compared to the nanosecond; no evidence "
        "of timing. `queue` and `real` wait."
        "\n\n"
        "\"execution\" in the study says what is trained: {\"text\":FILE, \"seed\":n, "
        "\"learning_rate\":x, \"beta1\":x, \"beta2\":x, \"epsilon\":x, \"weight_decay\":x, "
        "\"clip_norm\":x, \"mechanism\":{\"name\":NAME, ...}} with one of moe, mod, early-exit, "
        "pruning, freezing, sparse-attention; exec/mechanism/README.md has their parameters."
        "\n\n"
        "A rank that fails, dies or hangs ends the run within seconds, with one message that "
        "names it and what it did; what --record has got until then stays. So does SIGINT (exit "
        "code 130) or SIGTERM (143).",
    .options = {CLI_RUN_OPTIONS},
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
