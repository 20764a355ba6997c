/// The study that `dynmo run` executes, and what of a study is not executed.
#include "cli/run/run.h"

#include "analysis/compare/compare.h"
#include "analysis/study/study_keys.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 24 };

/// A hardware to name where the device measures everything and the file names none.
static const char *const any_hardware = "h100-sxm";

/// A path that the command line gives is meant from the working directory, a study's from its
/// folder: an existing file is named in full. What is no file is a shipped name.
static void put_path(json_writer *writer, const char *key, const char *path)
{
    char *full = realpath(path, NULL);
    json_put_string(writer, key, full != NULL ? full : path);
    free(full);
}

/// What the command line puts in place of what the file says.
static void write_changes(const cli_run_request *request, bool needs_hardware, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    if (request->iteration_count > 0) {
        json_put_int64(&writer, "training.iterations", request->iteration_count);
    }
    if (request->data_parallel > 0) {
        json_put_int64(&writer, "training.data_parallel", request->data_parallel);
    }
    if (request->trace != NULL) {
        put_path(&writer, "trace", request->trace);
        json_put_null(&writer, "model");
    }
    if (request->model != NULL) {
        put_path(&writer, "model", request->model);
        json_put_null(&writer, "trace");
    }
    if (request->hardware != NULL) {
        put_path(&writer, "hardware", request->hardware);
    } else if (needs_hardware) {
        json_put_string(&writer, "hardware", any_hardware);
    }
    json_end_object(&writer);
}

/// A study around a plan: its schedule and sizes, kept as it is.
static const char *write_plan_study(const bal_plan *plan, arena *memory)
{
    text_buffer out = {.memory = memory};
    text_format(&out,
                "{\"schema\":\"dynmo-study/1\",\"balancing\":[{\"balancer\":\"even\"}],"
                "\"training\":{\"microbatches\":%d,\"data_parallel\":%d},"
                "\"pipeline\":{\"stages\":%d,\"schedule\":\"%s\"",
                plan->microbatch_count, plan->data_parallel, plan->rank_count, plan->schedule);
    if (plan->chunk_count > 1) text_format(&out, ",\"chunks\":%d", plan->chunk_count);
    if (plan->first_stage_whole) text_append(&out, ",\"first_stage_backward\":\"whole\"");
    text_append(&out, "}}");
    return out.bytes;
}

static status check_costs_of_plan(const cli_run_request *request, error_message *err)
{
    if (request->learns && request->model == NULL) {
        return error_set(err, STATUS_INVALID,
                         "%s is a plan: device %s needs --model, what is trained", request->path,
                         request->device);
    }
    if (!request->learns && request->trace == NULL &&
        (request->model == NULL || request->hardware == NULL)) {
        return error_set(err, STATUS_INVALID,
                         "%s is a plan: --trace, or --model and --hardware, have to say how long "
                         "its ops take",
                         request->path);
    }
    return STATUS_OK;
}

/// Reads the file's text; of a plan the plan, and the text of a study around it.
static status read_text(const cli_run_request *request, const char *bytes, size_t length,
                        arena *memory, cli_run_study *opened, const char **text, error_message *err)
{
    json_document *document = NULL;
    const char *name = "";
    *text = bytes;
    TRY(json_open_bytes(request->path, bytes, length, &document, err));
    const json_value root = json_keep(document, memory);
    const json_value schema = json_member(root, "schema");
    if (json_is_string(schema)) json_string(schema, &name, NULL);
    if (strncmp(name, "dynmo-plan/", strlen("dynmo-plan/")) != 0) return STATUS_OK;
    TRY(bal_plan_read(root, memory, &opened->plan, err));
    opened->has_plan = true;
    TRY(check_costs_of_plan(request, err));
    *text = write_plan_study(&opened->plan, memory);
    return STATUS_OK;
}

/// What is executed is a study of this row alone.
static void take_row(cli_run_study *opened)
{
    ana_study *study = &opened->study;
    study->balancings[0] = *opened->row;
    study->balancing_count = 1;
    opened->row = &study->balancings[0];
}

/// The row that is named, else the first that decides and can be executed, else the first.
static status choose_row(const cli_run_request *request, cli_run_study *opened, error_message *err)
{
    const ana_study *study = &opened->study;
    char known[200] = "";
    opened->row = &study->balancings[0];
    if (opened->has_plan) return STATUS_OK;
    for (int row = study->balancing_count - 1; row >= 0; row--) {
        const ana_balancing *balancing = &study->balancings[row];
        if (request->row == NULL) {
            if (ana_balancing_is_dynamic(balancing) && !balancing->balancer->owns_freely) {
                opened->row = balancing;
            }
            continue;
        }
        if (strcmp(request->row, balancing->label) == 0) {
            opened->row = balancing;
            return STATUS_OK;
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s'%s'", used > 0 ? ", " : "",
                 balancing->label);
    }
    if (request->row == NULL) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "--row: the study has no row '%.60s'; it has %s",
                     request->row, known);
}

static status check_plan(const cli_run_request *request, const cli_run_study *opened,
                         error_message *err)
{
    if (!opened->has_plan) return STATUS_OK;
    const bal_plan *plan = &opened->plan;
    const int layers = plan->first_layer[plan->rank_count * plan->chunk_count];
    if (layers == opened->setup.source.layer_count) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s: a plan of %d layers, but %s has %d", request->path,
                     layers, request->trace != NULL ? request->trace : request->model,
                     opened->setup.source.layer_count);
}

/// Refuses more iterations than the outcome, which keeps loss, norm, time and plan of each, holds.
static status check_iterations(const cli_run_request *request, const cli_run_study *opened,
                               error_message *err)
{
    const int count = opened->setup.iteration_count;
    if (count <= CLI_RUN_ITERATIONS_MAX) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: training.iterations %d, but a run keeps what each did, of at most %d",
                     request->path, count, CLI_RUN_ITERATIONS_MAX);
}

static status open_text(const cli_run_request *request, const char *text, arena *memory,
                        cli_run_study *opened, error_message *err)
{
    const bool lacks_hardware = opened->has_plan && request->learns && request->hardware == NULL;
    text_buffer changes = {.memory = memory};
    text_buffer changed = {.memory = memory};
    write_changes(request, lacks_hardware, &changes);
    TRY(json_change(request->path, text, changes.bytes, &changed, err));
    return ana_study_open_text(request->path, changed.bytes, "{}", memory, &opened->study, err);
}

/// Adds the ranks that are made slow to those that the study has.
static status add_slow(const cli_run_request *request, cli_run_study *opened, error_message *err)
{
    ana_study *study = &opened->study;
    for (int slow = 0; slow < request->slow_rank_count; slow++) {
        const bal_slow_rank *entry = &request->slow_ranks[slow];
        if (entry->rank >= study->stage_count || study->run.slow_rank_count == ANA_SLOW_RANKS_MAX) {
            return error_set(err, STATUS_INVALID,
                             "--slow: rank %d of %d, as one of at most %d slow ranks", entry->rank,
                             study->stage_count, ANA_SLOW_RANKS_MAX);
        }
        study->slow_ranks[study->run.slow_rank_count++] = *entry;
    }
    return STATUS_OK;
}

static status refuse(const ana_study *study, const char *key, const char *why, error_message *err)
{
    return error_set(err, STATUS_UNSUPPORTED, "%s: %s is simulated only; %s", study->path, key,
                     why);
}

/// Devices that train reduce gradients under the backward where ops can begin that: on CPUs, and on
/// GPUs over NCCL.
static status check_overlap(const ana_study *study, const cli_run_request *request,
                            error_message *err)
{
    const bal_reduction_overlap overlap = study->run.reduction_overlap;
    const bool is_alone =
        strcmp(request->device, "cuda") == 0 && strcmp(request->transport, "nccl") != 0;
    if (overlap == BAL_REDUCTION_EXPOSED || (!is_alone && study->parallel.expert <= 1)) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s: training.reduction_overlap %s: %s gradients after the pipeline",
                     study->path, bal_reduction_overlap_names[overlap],
                     is_alone ? "device cuda without transport nccl reduces"
                              : "replicas that share experts (training.expert_parallel) reduce");
}

/// Refuses what a study says of devices that are told how long things take.
static status refuse_told(const cli_run_request *request, const cli_run_study *opened,
                          error_message *err)
{
    const ana_study *study = &opened->study;
    const char *dtype = model_dtype_names[study->dtype];
    const char *trained =
        model_dtype_names[request->is_bf16 ? MODEL_DTYPE_BFLOAT16 : MODEL_DTYPE_FLOAT32];
    const char *name = NULL;
    const char *mechanism = "no mechanism";
    TRY(ana_study_check_player(study, ANA_KEY_SIMULATED | ANA_KEY_NOT_LEARNT, err));
    if (study->dtype != MODEL_DTYPE_UNKNOWN && strcmp(dtype, trained) != 0) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: training.dtype %s: device %s trains in %s",
                         study->path, dtype, request->device, trained);
    }
    TRY(check_overlap(study, request, err));
    if (opened->row->information == BAL_INFORMATION_FORESIGHT) {
        return refuse(study, "balancing.information foresight",
                      "nobody knows what a device that trains will measure next", err);
    }
    if (study->parallel.recompute != MODEL_RECOMPUTE_NONE &&
        study->parallel.recompute != MODEL_RECOMPUTE_FULL) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: training.recompute %s is simulated only: devices keep no scores of "
                         "attention; full computes whole blocks again",
                         study->path, model_recompute_names[study->parallel.recompute]);
    }
    if (json_is_missing(study->dynamism)) return STATUS_OK;
    TRY(json_string(json_member(study->dynamism, "case"), &name, err));
    const json_value trains = json_member(study->execution, "mechanism");
    if (!json_is_missing(trains)) TRY(json_string(json_member(trains, "name"), &mechanism, err));
    if (strcmp(name, mechanism) == 0) return STATUS_OK;
    if (strcmp(name, "lengths") == 0 && json_is_missing(trains)) { // it changes data, not a model
        return strcmp(request->device, "cpu") == 0
                   ? STATUS_OK
                   : refuse(study, "dynamism.case lengths", "or trained on device cpu", err);
    }
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s: dynamism.case %s, but execution trains %s: a device does what "
                     "execution.mechanism says",
                     study->path, name, mechanism);
}

/// Refuses what the study says and this run would not do.
static status refuse_unplayed(const cli_run_request *request, const cli_run_study *opened,
                              error_message *err)
{
    const ana_study *study = &opened->study;
    if (request->learns) {
        TRY(refuse_told(request, opened, err));
    } else {
        TRY(ana_study_check_player(study, ANA_KEY_SIMULATED, err));
    }
    const bal_repack_options *repack = &opened->row->repack.options;
    if (opened->row->balancer->owns_freely) {
        return refuse(study, "balancing.balancer", "its plans have no stages to execute", err);
    }
    if (repack->kind != BAL_REPACK_NONE && repack->use == BAL_RELEASED_REPLICATE) {
        return refuse(study, "repack.use replicate", "devices release or lend ranks", err);
    }
    const bool is_nominal = !request->learns && request->clock == EXEC_CLOCK_NOMINAL;
    if (opened->row->migration.overlaps && !is_nominal) {
        return refuse(study, "balancing.migration.overlap",
                      "under a clock that measures layers move after the decision", err);
    }
    return STATUS_OK;
}

status cli_run_study_open(const cli_run_request *request, arena *memory, cli_run_study *opened,
                          error_message *err)
{
    char *bytes = NULL;
    size_t length = 0;
    const char *text = NULL;
    memset(opened, 0, sizeof *opened);
    TRY(file_read(request->path, FILE_BYTES_MAX, &bytes, &length, err));
    arena_own(memory, bytes, free);
    TRY(read_text(request, bytes, length, memory, opened, &text, err));
    TRY(open_text(request, text, memory, opened, err));
    TRY(choose_row(request, opened, err));
    TRY(refuse_unplayed(request, opened, err));
    take_row(opened);
    TRY(add_slow(request, opened, err));
    TRY(ana_setup_open(&opened->study, NULL, memory, &opened->setup, err));
    TRY(check_iterations(request, opened, err));
    return check_plan(request, opened, err);
}
