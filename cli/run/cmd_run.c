/// `dynmo run`: executes a plan or a study on real ranks.
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/run/run.h"

#include "sim/training_plan.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BLOCK_BYTES = 1 << 20 };
static const double TOLERANCE_CUDA = 0.1;
enum { PPB = 1000000000, WATCHDOG_SECONDS_DEFAULT = 60, WATCHDOG_SECONDS_MAX = 86400 };

static const char *const devices[] = {"timed", "cpu", "cuda"};
static const char *const precisions[] = {"fp32", "bf16"};

static status read_choices(const cli_arguments *arguments, cli_run_request *request,
                           error_message *err)
{
    int device = 0;
    int transport = 0;
    int precision = 0;
    int clock = 0;
    TRY(cli_choice(arguments, "--device", devices, 3, 0, &device, err));
    TRY(cli_choice(arguments, "--transport", exec_transport_names, EXEC_TRANSPORT_COUNT, 0,
                   &transport, err));
    TRY(cli_choice(arguments, "--precision", precisions, 2, 0, &precision, err));
    request->device = devices[device];
    request->transport = exec_transport_names[transport];
    request->learns = device != 0;
    request->is_bf16 = precision == 1;
    TRY(cli_choice(arguments, "--clock", exec_clock_names, EXEC_CLOCK_COUNT,
                   request->learns ? EXEC_CLOCK_REAL : EXEC_CLOCK_NOMINAL, &clock, err));
    request->clock = (exec_clock)clock;
    return STATUS_OK;
}

/// Options that mean nothing with the device that was chosen, and transports that cannot serve it.
static status check_device(const cli_arguments *arguments, const cli_run_request *request,
                           error_message *err)
{
    static const char *const learning[] = {"--text", "--counts"};
    const char *of_learning = cli_first_given(arguments, learning, 2);
    if (!request->learns && of_learning != NULL) {
        return error_set(err, STATUS_INVALID, "%s: device timed trains nothing; cpu and cuda do",
                         of_learning);
    }
    if (request->learns && cli_has(arguments, "--trace")) {
        return error_set(err, STATUS_INVALID,
                         "--trace: device %s measures its ops; only timed is told how long they "
                         "take",
                         request->device);
    }
    if (strcmp(request->device, "cuda") != 0 && cli_has(arguments, "--precision")) {
        return error_set(err, STATUS_INVALID, "--precision: only device cuda has a choice");
    }
    return exec_transport_check(request->transport, request->device, err);
}

/// "1=2.5": rank 1 takes 2.5 times as long.
static status read_slow_rank(const char *given, bal_slow_rank *slow, error_message *err)
{
    char rank[32];
    int64_t number = 0;
    const size_t length = strcspn(given, "=");
    if (length == 0 || length >= sizeof rank || given[length] == '\0') {
        return error_set(err, STATUS_INVALID, "--slow: '%.40s' is not RANK=X", given);
    }
    memcpy(rank, given, length);
    rank[length] = '\0';
    TRY(text_parse_int64(rank, "--slow", 0, BAL_RANKS_MAX - 1, &number, err));
    *slow = (bal_slow_rank){.rank = (int)number, .end_iteration = INT32_MAX};
    return text_parse_double(given + length + 1, "--slow", 1, 1000, &slow->time_factor, err);
}

/// What is made slow on purpose.
static status read_slow(const cli_arguments *arguments, cli_run_request *request,
                        error_message *err)
{
    const char *given = NULL;
    for (int index = 0; (given = cli_value_at(arguments, "--slow", index)) != NULL; index++) {
        if (index == CLI_RUN_SLOW_MAX) {
            return error_set(err, STATUS_INVALID, "--slow: more than %d", CLI_RUN_SLOW_MAX);
        }
        TRY(read_slow_rank(given, &request->slow_ranks[request->slow_rank_count++], err));
    }
    if (strcmp(request->device, "cuda") != 0 || request->slow_rank_count == 0) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "--slow: device cuda cannot be slowed down; timed and cpu can");
}

/// The warm-up, and how far the forecast may be off. The cores of a host are shared with others, so
/// that only a GPU has a limit by default.
static status read_forecast(const cli_arguments *arguments, cli_run_request *request,
                            error_message *err)
{
    static const char *const of_forecasts[] = {"--tolerance", "--warmup"};
    const char *of_forecast = cli_first_given(arguments, of_forecasts, 2);
    const bool has_forecast = cli_run_has_forecast(request);
    if (!has_forecast && of_forecast != NULL) {
        return error_set(
            err, STATUS_INVALID,
            "%s: of devices that measure, cpu and cuda under the clocks queue and real",
            of_forecast);
    }
    if (strcmp(request->device, "cuda") == 0) request->tolerance = TOLERANCE_CUDA;
    TRY(cli_double(arguments, "--tolerance", 0, 1e6, &request->tolerance, err));
    request->needs_forecast = cli_has(arguments, "--tolerance") && request->tolerance > 0;
    return cli_int(arguments, "--warmup", 0, 1000, has_forecast ? 1 : 0, &request->warmup_count,
                   err);
}

/// A trace and a run are written at the same time, by two writers.
static status check_files(const cli_run_request *request, error_message *err)
{
    if (request->record == NULL || request->store == NULL ||
        strcmp(request->record, request->store) != 0) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "--record and --store both name %s; they need two files",
                     request->record);
}

static status read_request(const cli_arguments *arguments, cli_run_request *request,
                           error_message *err)
{
    int seconds = WATCHDOG_SECONDS_DEFAULT;
    *request = (cli_run_request){
        .path = cli_operand(arguments, 0),
        .command_line = cli_command_line(arguments),
        .row = cli_value(arguments, "--row"),
        .trace = cli_value(arguments, "--trace"),
        .model = cli_value(arguments, "--model"),
        .hardware = cli_value(arguments, "--hardware"),
        .text = cli_value(arguments, "--text"),
        .record = cli_value(arguments, "--record"),
        .store = cli_value(arguments, "--store"),
        .counts = cli_value(arguments, "--counts"),
        .is_real_time = cli_has(arguments, "--real-time"),
        .is_distributed = cli_has(arguments, "--distributed"),
    };
    TRY(read_choices(arguments, request, err));
    TRY(check_device(arguments, request, err));
    TRY(check_files(request, err));
    TRY(read_slow(arguments, request, err));
    TRY(read_forecast(arguments, request, err));
    TRY(cli_int(arguments, "--iterations", 1, CLI_RUN_ITERATIONS_MAX, 0, &request->iteration_count,
                err));
    TRY(cli_int(arguments, "--data-parallel", 1, 4096, 0, &request->data_parallel, err));
    TRY(cli_int(arguments, "--watchdog", 1, WATCHDOG_SECONDS_MAX, seconds, &seconds, err));
    request->watchdog_ns = (int64_t)seconds * PPB;
    return STATUS_OK;
}

/// A run, as the ranks of this process see it. Ranks that do not come back go on using it.
typedef struct run_state {
    cli_run_request request;
    int abandoned_rank_count;   // that have not come back
    atomic_bool leader_is_back; // the rank that uses the files and the outcome
    cli_run_study opened;
    int layer_count;
    exec_model model; // the rest of a device that trains
    bool is_synthetic;
    exec_training_text text;
    exec_training_device device;
    exec_packing packing;
    bal_training training;
    bal_training predicted;  // the same for the predictor, which needs a source at any rate
    bal_cost_source unknown; // of a device that trains
    exec_training execution;
    exec_training_listener listener;
    arena *memory;        // the leader's
    bool leads;           // this process does: it alone writes and prints
    cli_run_files *files; // NULL: none yet
    cli_run_outcome outcome;
    cli_progress progress;
} run_state;

static status put_iteration(void *context, const exec_measured *measured, error_message *err)
{
    run_state *state = context;
    cli_progress_step(&state->progress);
    TRY(cli_run_outcome_add(&state->outcome, measured, err));
    return cli_run_files_put(state->files, measured, err);
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

static exec_backend backend_of(const cli_run_request *request)
{
    if (strcmp(request->device, "cuda") == 0) {
        return request->is_bf16 ? EXEC_BACKEND_CUDA_BF16 : EXEC_BACKEND_CUDA_FP32;
    }
    return EXEC_BACKEND_CPU;
}

/// Reads what devices that train share in this process: model and text.
static status prepare_device(run_state *state, error_message *err)
{
    const cli_run_request *request = &state->request;
    const ana_setup *setup = &state->opened.setup;
    const char *text = NULL;
    int token_bytes = 1;
    state->layer_count = setup->source.layer_count;
    if (!request->learns) return STATUS_OK;
    TRY(cli_run_model_read(request, &state->opened, state->memory, &state->model, &text,
                           &token_bytes, err));
    state->is_synthetic = text == NULL;
    if (text == NULL) {
        exec_training_text_make(&state->model, &state->text);
    } else {
        TRY(exec_training_text_read(text, &state->model, token_bytes, &state->text, err));
    }
    TRY(cli_run_packing_make(request, &state->opened, state->memory, &state->model, &state->packing,
                             err));
    const bool shares_gpu = strcmp(request->transport, "local") == 0;
    const int ranks = setup->machine.rank_count * state->opened.study.parallel.data;
    state->layer_count = exec_model_layer_count(&state->model);
    state->device = (exec_training_device){
        .model = &state->model,
        .text = &state->text,
        .packing = state->model.packed_rows > 0 ? &state->packing : NULL,
        .backend = backend_of(request),
        .replica_rank_count = setup->machine.rank_count,
        .gpu_place_count = shares_gpu ? ranks : 1,
        .hands_over_memory = shares_gpu || strcmp(request->transport, "nccl") == 0,
        .runs_ahead = request->clock != EXEC_CLOCK_NOMINAL,
        .counts_cpu_time = request->clock == EXEC_CLOCK_NOMINAL,
    };
    return exec_training_device_check(&state->device, err);
}

static status create_device(void *context, int world_rank, exec_device **out, error_message *err)
{
    run_state *state = context;
    if (state->request.learns) {
        return exec_training_device_create(&state->device, world_rank, out, err);
    }
    *out = exec_device_timed_create(state->layer_count);
    return STATUS_OK;
}

/// What all ranks of this process need. Nothing is written yet.
static status prepare(run_state *state, error_message *err)
{
    const cli_run_request *request = &state->request;
    const bal_record_sink none = {0};
    TRY(cli_run_study_open(request, state->memory, &state->opened, err));
    state->training = ana_setup_training(&state->opened.setup, state->opened.row, none);
    TRY(prepare_device(state, err));
    if (request->learns) {
        state->training.sources = NULL;
        state->training.source_count = 0;
    }
    state->listener = (exec_training_listener){.context = state, .put = put_iteration};
    state->execution = (exec_training){
        .training = &state->training,
        .plan = state->opened.has_plan ? &state->opened.plan : NULL,
        .layer_count = state->layer_count,
        .devices = {.context = state, .create = create_device},
        .clock = request->clock,
        .warmup_count = request->warmup_count,
        .distributes_decisions = request->is_distributed,
        .listener = &state->listener,
    };
    return STATUS_OK;
}

/// What only the leading process needs: the predictor, the files, the outcome.
static status prepare_leader(run_state *state, error_message *err)
{
    const cli_run_request *request = &state->request;
    state->predicted = state->training;
    if (request->learns) {
        state->unknown = (bal_cost_source){.layer_count = state->layer_count};
        state->predicted.sources = &state->unknown;
        state->predicted.source_count = 1;
    }
    TRY(sim_predictor_create(&state->predicted, state->memory, &state->execution.evaluator, err));
    cli_run_outcome_init(&state->outcome, request, &state->opened, state->memory);
    state->outcome.is_synthetic = state->is_synthetic;
    TRY(cli_run_files_begin(request, &state->opened, &state->model, state->memory, &state->files,
                            err));
    state->training.sink = cli_run_files_sink(state->files);
    return STATUS_OK;
}

static status execute(run_state *state, error_message *err)
{
    const cli_run_request *request = &state->request;
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

static status report(const cli_arguments *arguments, run_state *state, text_buffer *out,
                     error_message *err)
{
    if (!state->request.learns && !state->opened.has_plan) {
        TRY(cli_run_outcome_replay(&state->outcome, &state->training, state->memory, err));
    }
    (cli_has(arguments, "--json") ? cli_run_outcome_write : cli_run_outcome_print)(&state->outcome,
                                                                                   out);
    return cli_run_forecast_check(&state->outcome, err);
}

static status run_prepared(const cli_arguments *arguments, run_state *state, text_buffer *out,
                           error_message *err)
{
    TRY(prepare(state, err));
    state->leads = exec_transport_is_leader(state->request.transport);
    status ended = state->leads ? prepare_leader(state, err) : STATUS_OK;
    if (ended == STATUS_OK) ended = execute(state, err);
    const bool has_run = state->abandoned_rank_count == 0 || atomic_load(&state->leader_is_back);
    if (state->files != NULL && has_run) {
        ended = cli_run_files_finish(state->files, &state->outcome.result, ended, err);
    }
    if (ended == STATUS_OK && state->leads) ended = report(arguments, state, out, err);
    return ended;
}

static status run_and_free(const cli_arguments *arguments, const cli_run_request *request,
                           text_buffer *out, error_message *err)
{
    arena *memory = arena_create(ARENA_BLOCK_BYTES);
    run_state *state = arena_array(memory, 1, sizeof *state);
    state->request = *request;
    state->memory = memory;
    const status ended = run_prepared(arguments, state, out, err);
    if (state->abandoned_rank_count > 0) return ended; // they end with the process
    exec_training_text_free(&state->text);
    arena_destroy(memory);
    return ended;
}

/// One process of a run speaks for all, also of what went wrong.
static status run(const cli_arguments *arguments, arena *memory, text_buffer *out,
                  error_message *err)
{
    (void)memory; // ranks that are left behind keep theirs
    cli_run_request request;
    const char *transport = "mpi"; // as long as it is not known: as if a launcher had started it
    status ended = read_request(arguments, &request, err);
    if (ended == STATUS_OK) {
        transport = request.transport;
        ended = run_and_free(arguments, &request, out, err);
    }
    return exec_transport_end(transport, ended, err);
}

const cli_command cli_command_run = {
    .name = "run",
    .synopsis = "STUDY.json|PLAN.json [--device D] [--transport T] [--clock C] [OPTION...]",
    .summary = "executes a study or a plan on real ranks and compares with the simulation",
    .description =
        "Plays what `dynmo simulate` plays, on real ranks: the same controller decides, layers "
        "migrate in real messages, and every op is measured. Prints the time of the run beside "
        "what the simulator says of it, and what was learnt; a device that trains ends with a "
        "forecast from its first warm iterations, and where its error comes from."
        "\n\n"
        "Devices: `timed` takes the time that the study's trace or model says; `cpu` trains the "
        "study's model on a text; `cuda` the same on GPUs. Transports: `local` has a thread for "
        "each rank; `mpi` needs `mpirun -n RANKS dynmo run ... --transport mpi`, or srun; `tcp` "
        "needs no MPI, but srun, torchrun or MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE; `nccl` "
        "has a GPU for each rank, and a thread, or under one of these launchers a process. RANKS "
        "are the study's stages times --data-parallel."
        "\n\n"
        "What is trained, and what makes it dynamic, is the study's \"execution\": "
        "exec/mechanism/README.md. A rank that fails, dies or hangs ends the run within seconds "
        "with one message that names it; what --record has got until then stays. So does SIGINT "
        "(exit code 130) or SIGTERM (143).",
    .options =
        {
            {"--device", "D", .help = "timed, cpu or cuda: what an op does; default timed"},
            {"--transport", "T",
             .help =
                 "local (threads of one process), mpi (under mpirun or srun), tcp (under srun or "
                 "torchrun) or nccl (a rank per GPU); default local"},
            {"--clock", "C",
             .help = "nominal (deadlines travel with the messages, nobody waits), queue (an op "
                     "begins at the deadline of the one before, as in a GPU's queue) or real; "
                     "default nominal for timed, real else"},
            {"--row", "LABEL",
             .help = "the entry of the study's balancing to run; default the first that decides"},
            {"--trace", "TRACE.db", .help = "the trace that says how long ops take (timed)"},
            {"--model", "CONFIG",
             .help = "config.json or shipped name: what is trained (cpu, cuda), or what says how "
                     "long ops take (timed, with --hardware)"},
            {"--hardware", "NAME", .help = "hardware file or preset, with --model"},
            {"--text", "FILE",
             .help = "text to train on, as bytes (cpu, cuda); without one tokens are drawn by the "
                     "study's seed"},
            {"--iterations", "N", .help = "instead of the study's number"},
            {"--data-parallel", "D",
             .help = "replicas of the pipeline, instead of the study's number"},
            {"--warmup", "N",
             .help = "first iterations that are neither recorded nor decided from (cpu, cuda); "
                     "default 1, 0 under the nominal clock"},
            {"--tolerance", "X",
             .help = "exit code 4 if the run takes longer or shorter than its forecast by more "
                     "than this share, 0: never (cpu, cuda); default 0.1 on cuda, 0 on cpu"},
            {"--slow", "RANK=X",
             .help = "makes all ops of a rank take X times as long, X in [1, 1000], to see what "
                     "follows (timed, cpu); may be given several times",
             .may_repeat = true},
            {"--precision", "P", .help = "fp32 or bf16 (cuda); default fp32"},
            {"--record", "TRACE.db", .is_store = true,
             .help = "adds what layers took to a store, as a trace that simulate reads"},
            {"--store", "RUN.db", .is_store = true,
             .help = "adds the run to a store as simulate --store does, for report and export"},
            {"--counts", "FILE.csv", .is_output = true,
             .help = "writes the tokens of every expert (mechanism moe), the blocks of keys met "
                     "(sparse-attention), the rows computed (mod, early-exit)"},
            {"--watchdog", "SECONDS",
             .help = "no rank has moved for so long: the run fails; default 60"},
            {"--distributed",
             .help = "the balancer diffusion runs on the ranks, each with what it measured of its "
                     "layers"},
            {"--real-time", .help = "asks the system for real-time priority, where it is allowed"},
            {"--json", .help = "prints one JSON object"},

        },
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
