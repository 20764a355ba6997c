#include "cli/run/run_request.h"

#include "base/text.h"
#include "cli/launcher.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PPB = 1000000000, WATCHDOG_SECONDS_DEFAULT = 60, WATCHDOG_SECONDS_MAX = 86400 };

static const char *const devices[] = {"timed", "cpu", "cuda"};
static const char *const transports[] = {"local", "mpi", "nccl"};
static const char *const precisions[] = {"fp32", "bf16"};

static status read_time_scale(const cli_arguments *arguments, cli_run_request *request,
                              error_message *err)
{
    double scale = 1;
    const char *value = cli_value(arguments, "--time-scale");
    if (value != NULL) TRY(text_parse_double(value, "--time-scale", 1e-6, 1e3, &scale, err));
    request->time_scale_ppb = llround(scale * PPB);
    return STATUS_OK;
}

static status read_choices(const cli_arguments *arguments, cli_run_request *request,
                           error_message *err)
{
    int device = 0;
    int transport = 0;
    int precision = 0;
    int clock = 0;
    TRY(cli_choice(arguments, "--device", devices, 3, 0, &device, err));
    TRY(cli_choice(arguments, "--transport", transports, 3, 0, &transport, err));
    TRY(cli_choice(arguments, "--precision", precisions, 2, 0, &precision, err));
    request->device = devices[device];
    request->transport = transports[transport];
    request->learns = device != 0;
    request->is_bf16 = precision == 1;
    TRY(cli_choice(arguments, "--clock", exec_clock_names, EXEC_CLOCK_COUNT,
                   request->learns ? EXEC_CLOCK_REAL : EXEC_CLOCK_NOMINAL, &clock, err));
    request->clock = (exec_clock)clock;
    return STATUS_OK;
}

/// Options that mean nothing with the device that was chosen.
static status check_device(const cli_arguments *arguments, const cli_run_request *request,
                           error_message *err)
{
    static const char *const learning[] = {"--text",    "--counts", "--checkpoint",
                                           "--restart", "--blas",   "--checkpoint-every"};
    for (size_t option = 0; option < sizeof learning / sizeof learning[0]; option++) {
        if (request->learns || !cli_has(arguments, learning[option])) continue;
        return error_set(err, STATUS_INVALID, "%s: device timed trains nothing; cpu and cuda do",
                         learning[option]);
    }
    if (request->learns && cli_has(arguments, "--time-scale")) {
        return error_set(err, STATUS_INVALID,
                         "--time-scale: device %s takes its own time; only timed can be scaled",
                         request->device);
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
    if (strcmp(request->transport, "nccl") == 0 && strcmp(request->device, "cuda") != 0) {
        return error_set(err, STATUS_INVALID,
                         "--transport nccl: moves the memory of GPUs; device %s has none",
                         request->device);
    }
    return STATUS_OK;
}

/// Splits "1-2=5" at its separators into numbers. @return false if it does not look like that
static status read_parts(const char *option, const char *given, char *parts, size_t size,
                         const char **number, error_message *err)
{
    const char *equals = strchr(given, '=');
    const size_t length = equals != NULL ? (size_t)(equals - given) : 0;
    if (length == 0 || length >= size) {
        return error_set(err, STATUS_INVALID, "%s: '%.40s' is not %s", option, given,
                         strcmp(option, "--slow") == 0 ? "RANK=X" : "A-B=US");
    }
    memcpy(parts, given, length);
    parts[length] = '\0';
    *number = equals + 1;
    return STATUS_OK;
}

static status read_rank(const char *option, const char *text, int *rank, error_message *err)
{
    int64_t value = 0;
    TRY(text_parse_int64(text, option, 0, BAL_RANKS_MAX - 1, &value, err));
    *rank = (int)value;
    return STATUS_OK;
}

static status read_slow_rank(const char *given, bal_slow_rank *slow, error_message *err)
{
    char rank[32];
    const char *factor = NULL;
    *slow = (bal_slow_rank){.end_iteration = INT32_MAX};
    TRY(read_parts("--slow", given, rank, sizeof rank, &factor, err));
    TRY(read_rank("--slow", rank, &slow->rank, err));
    return text_parse_double(factor, "--slow", 1, 1000, &slow->time_factor, err);
}

static status read_slow_link(const char *given, exec_slow_link *slow, error_message *err)
{
    char ranks[32];
    const char *number = NULL;
    double delay_us = 0;
    TRY(read_parts("--slow-link", given, ranks, sizeof ranks, &number, err));
    char *dash = strchr(ranks, '-');
    if (dash == NULL) {
        return error_set(err, STATUS_INVALID, "--slow-link: '%.40s' is not A-B=US", given);
    }
    *dash = '\0';
    TRY(read_rank("--slow-link", ranks, &slow->rank, err));
    TRY(read_rank("--slow-link", dash + 1, &slow->other_rank, err));
    TRY(text_parse_double(number, "--slow-link", 0, 1e9, &delay_us, err));
    slow->delay_ns = llround(delay_us * 1000);
    if (slow->rank != slow->other_rank) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "--slow-link: %d-%d is no link: one rank", slow->rank,
                     slow->other_rank);
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
    for (int index = 0; (given = cli_value_at(arguments, "--slow-link", index)) != NULL; index++) {
        if (index == CLI_RUN_SLOW_MAX) {
            return error_set(err, STATUS_INVALID, "--slow-link: more than %d", CLI_RUN_SLOW_MAX);
        }
        TRY(read_slow_link(given, &request->slow_links[request->slow_link_count++], err));
    }
    if (strcmp(request->device, "cuda") != 0 ||
        request->slow_rank_count + request->slow_link_count == 0) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s: device cuda cannot be slowed down; timed and cpu can",
                     request->slow_rank_count > 0 ? "--slow" : "--slow-link");
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

status cli_run_request_read(const cli_arguments *arguments, cli_run_request *request,
                            error_message *err)
{
    int seconds = WATCHDOG_SECONDS_DEFAULT;
    *request = (cli_run_request){
        .path = cli_operand(arguments, 0),
        .uses_blas = cli_has(arguments, "--blas"),
        .row = cli_value(arguments, "--row"),
        .trace = cli_value(arguments, "--trace"),
        .model = cli_value(arguments, "--model"),
        .hardware = cli_value(arguments, "--hardware"),
        .text = cli_value(arguments, "--text"),
        .record = cli_value(arguments, "--record"),
        .store = cli_value(arguments, "--store"),
        .counts = cli_value(arguments, "--counts"),
        .checkpoint = cli_value(arguments, "--checkpoint"),
        .restart = cli_value(arguments, "--restart"),
        .is_real_time = cli_has(arguments, "--real-time"),
        .is_distributed = cli_has(arguments, "--distributed"),
    };
    TRY(read_choices(arguments, request, err));
    TRY(check_device(arguments, request, err));
    TRY(cli_launcher_check(request->transport, err));
    TRY(check_files(request, err));
    TRY(read_slow(arguments, request, err));
    TRY(read_time_scale(arguments, request, err));
    TRY(cli_int(arguments, "--iterations", 1, 100000000, 0, &request->iteration_count, err));
    TRY(cli_int(arguments, "--data-parallel", 1, 4096, 0, &request->data_parallel, err));
    TRY(cli_int(arguments, "--checkpoint-every", 1, 100000000, 0, &request->checkpoint_every, err));
    TRY(cli_int(arguments, "--watchdog", 1, WATCHDOG_SECONDS_MAX, seconds, &seconds, err));
    request->watchdog_ns = (int64_t)seconds * PPB;
    if (request->checkpoint_every > 0 && request->checkpoint == NULL) {
        return error_set(err, STATUS_INVALID, "--checkpoint-every needs --checkpoint FILE");
    }
    return STATUS_OK;
}
