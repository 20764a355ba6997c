/// The study that is made of one measured run, with the defaults for what its row leaves out.
#include "analysis/calibration/real_runs.h"

#include "balance/schedule/schedule.h"
#include "base/json.h"
#include "models/cost/config.h"
#include "models/cost/dtype.h"
#include "models/cost/layer_work.h"
#include "models/cost/parallel.h"
#include "models/shipped.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DIGITS "0123456789"

enum {
    COUNT_MAX = 1 << 24,
    NODE_GPUS_MAX = 1 << 16,
    SEQUENCE_DEFAULT = 2048,
    VOCABULARY_DEFAULT = 51200,
    WORD_BYTES = 64
};

/// The whole numbers of a row, defaults filled in.
typedef struct real_sizes {
    int tp, pp, vp, cp, ep, etp, dp, fsdp;
    int gpus;
    int microbatch, global_batch, sequence;
} real_sizes;

static status refuse(const ana_real_runs *runs, int row, error_message *err, const char *what,
                     const char *value)
{
    return error_set(err, STATUS_FORMAT, "%s:%d: %s%s%s", runs->source.path,
                     runs->source.lines[row], what, value[0] != '\0' ? " " : "", value);
}

/// Data parallelism is what GPUs and the other degrees leave, GPUs what all of them make.
static status fill_replicas(const ana_real_runs *runs, int row, real_sizes *sizes,
                            error_message *err)
{
    char numbers[160];
    const double replica = (double)sizes->tp * sizes->pp * sizes->cp;
    if (sizes->gpus == 0) {
        const double gpus = replica * (sizes->dp > 0 ? sizes->dp : 1);
        if (gpus > COUNT_MAX) return refuse(runs, row, err, "too many GPUs", "");
        sizes->dp = sizes->dp > 0 ? sizes->dp : 1;
        sizes->gpus = (int)gpus;
    }
    if (sizes->dp == 0) sizes->dp = (int)(sizes->gpus / replica);
    if (sizes->dp >= 1 && sizes->dp * replica == sizes->gpus) return STATUS_OK;
    snprintf(numbers, sizeof numbers, "%d, not tp %d x pp %d x cp %d x dp %d", sizes->gpus,
             sizes->tp, sizes->pp, sizes->cp, sizes->dp);
    return refuse(runs, row, err, "gpus", numbers);
}

static status read_sizes(const ana_real_runs *runs, int row, real_sizes *sizes, error_message *err)
{
    const struct {
        ana_real_column column;
        int min, fallback;
        int *value;
    } numbers[] = {{ANA_REAL_TP, 1, 1, &sizes->tp},
                   {ANA_REAL_PP, 1, 1, &sizes->pp},
                   {ANA_REAL_VP, 1, 1, &sizes->vp},
                   {ANA_REAL_CP, 1, 1, &sizes->cp},
                   {ANA_REAL_EP, 1, 1, &sizes->ep},
                   {ANA_REAL_ETP, 1, 0, &sizes->etp},
                   {ANA_REAL_DP, 1, 0, &sizes->dp},
                   {ANA_REAL_FSDP, 0, 0, &sizes->fsdp},
                   {ANA_REAL_GPUS, 1, 0, &sizes->gpus},
                   {ANA_REAL_MICROBATCH, 1, 1, &sizes->microbatch},
                   {ANA_REAL_GLOBAL_BATCH, 1, 0, &sizes->global_batch},
                   {ANA_REAL_SEQUENCE, 1, SEQUENCE_DEFAULT, &sizes->sequence}};
    for (size_t number = 0; number < sizeof numbers / sizeof numbers[0]; number++) {
        TRY(ana_real_int(runs, row, numbers[number].column, numbers[number].min, COUNT_MAX,
                         numbers[number].fallback, numbers[number].value, err));
    }
    TRY(fill_replicas(runs, row, sizes, err));
    if (sizes->global_batch > 0) return STATUS_OK;
    int microbatches = 0;
    TRY(ana_real_int(runs, row, ANA_REAL_MICROBATCHES, 1, COUNT_MAX, 0, &microbatches, err));
    const double batch = (double)microbatches * sizes->microbatch * sizes->dp;
    if (batch < 1 || batch > COUNT_MAX) {
        return refuse(runs, row, err, "neither global_batch nor microbatches", "");
    }
    sizes->global_batch = (int)batch;
    return STATUS_OK;
}

/// By our names, and "fused" for the kernels of today; MODEL_ATTENTION_COUNT of another word.
static model_attention attention_of(const ana_real_runs *runs, int row)
{
    const char *named = ana_real_text(runs, row, ANA_REAL_ATTENTION);
    if (named[0] == '\0' || strcasecmp(named, "fused") == 0) return MODEL_ATTENTION_FLASH;
    int attention = 0;
    while (attention < MODEL_ATTENTION_COUNT &&
           strcasecmp(named, model_attention_names[attention]) != 0) {
        attention++;
    }
    return (model_attention)attention;
}

/// Frameworks that do not fuse attention are of a time before sequence parallelism and optimizers
/// that are sharded as a matter of course.
static bool is_fused(const ana_real_runs *runs, int row)
{
    return attention_of(runs, row) != MODEL_ATTENTION_UNFUSED;
}

/// Letters and digits of a name, small.
static void plain_name(const char *name, char *out, size_t size)
{
    size_t length = 0;
    for (; *name != '\0' && length + 1 < size; name++) {
        if (isalnum((unsigned char)*name)) out[length++] = (char)tolower((unsigned char)*name);
    }
    out[length] = '\0';
}

/// The shipped file whose name has, or else begins with, these letters and digits; NULL if none or
/// several do.
static const char *only_beginning(const embedded_file *files, const char *wanted)
{
    const char *found = NULL;
    int count = 0;
    for (const embedded_file *file = files; file->name != NULL; file++) {
        char known[WORD_BYTES];
        plain_name(file->name, known, sizeof known);
        if (strncmp(known, wanted, strlen(wanted)) != 0) continue;
        if (strcmp(known, wanted) == 0) return file->name;
        found = file->name;
        count++;
    }
    return count == 1 ? found : NULL;
}

/// The shipped file that a published table's name means. Of a GPU that there is on several boards
/// the one on a socket of its own (SXM) is meant.
static const char *shipped_name(const embedded_file *files, const char *name)
{
    char wanted[WORD_BYTES];
    plain_name(name, wanted, sizeof wanted - sizeof "sxm");
    if (wanted[0] == '\0' || strchr(name, '/') != NULL) return name;
    const char *found = only_beginning(files, wanted);
    if (found != NULL) return found;
    memcpy(wanted + strlen(wanted), "sxm", sizeof "sxm");
    found = only_beginning(files, wanted);
    return found != NULL ? found : name;
}

/// A GPT by its sizes, as a change of a shipped one.
static status write_gpt(const ana_real_runs *runs, int row, const real_sizes *sizes,
                        json_writer *writer, error_message *err)
{
    int layers = 0;
    int hidden = 0;
    int heads = 0;
    int vocabulary = 0;
    double dropout = 0;
    TRY(ana_real_int(runs, row, ANA_REAL_LAYERS, 1, COUNT_MAX, 0, &layers, err));
    TRY(ana_real_int(runs, row, ANA_REAL_HIDDEN, 1, COUNT_MAX, 0, &hidden, err));
    if (layers == 0 || hidden == 0) {
        return refuse(runs, row, err,
                      runs->ignored[0] == '\0'
                          ? "neither model nor layers and hidden_size"
                          : "neither model nor layers and hidden_size; columns that are not read:",
                      runs->ignored);
    }
    TRY(ana_real_int(runs, row, ANA_REAL_HEADS, 1, COUNT_MAX, hidden >= 64 ? hidden / 64 : 1,
                     &heads, err));
    TRY(ana_real_int(runs, row, ANA_REAL_VOCABULARY, 1, COUNT_MAX, VOCABULARY_DEFAULT, &vocabulary,
                     err));
    TRY(ana_real_number(runs, row, ANA_REAL_DROPOUT, 0, 1, 0.1, &dropout, err));
    json_begin_object(writer);
    json_put_string(writer, "base", "gpt-megatron");
    json_put_int64(writer, "n_layer", layers);
    json_put_int64(writer, "n_embd", hidden);
    json_put_int64(writer, "n_head", heads);
    json_put_int64(writer, "vocab_size", vocabulary);
    json_put_int64(writer, "n_positions", sizes->sequence);
    json_put_double(writer, "attn_pdrop", dropout);
    json_put_double(writer, "embd_pdrop", dropout);
    json_put_double(writer, "resid_pdrop", dropout);
    json_end_object(writer);
    return STATUS_OK;
}

static status write_model(const ana_real_runs *runs, int row, const real_sizes *sizes,
                          json_writer *writer, error_message *err)
{
    const char *model = ana_real_text(runs, row, ANA_REAL_MODEL);
    json_write_key(writer, "model");
    if (model[0] == '\0') return write_gpt(runs, row, sizes, writer, err);
    json_put_string(writer, NULL, shipped_name(model_shipped_configs, model));
    return STATUS_OK;
}

/// A number format as tables spell it.
static status find_dtype(const ana_real_runs *runs, int row, model_dtype *out, error_message *err)
{
    static const struct {
        const char *word;
        model_dtype dtype;
    } words[] = {{"", MODEL_DTYPE_BFLOAT16},      {"bf16", MODEL_DTYPE_BFLOAT16},
                 {"fp16", MODEL_DTYPE_FLOAT16},   {"fp32", MODEL_DTYPE_FLOAT32},
                 {"fp8", MODEL_DTYPE_FLOAT8},     {"mxfp8", MODEL_DTYPE_MXFLOAT8},
                 {"nvfp4", MODEL_DTYPE_NVFLOAT4}, {"tf32", MODEL_DTYPE_TFLOAT32}};
    const char *word = ana_real_text(runs, row, ANA_REAL_PRECISION);
    model_dtype dtype = model_dtype_find(word);
    for (size_t known = 0; known < sizeof words / sizeof words[0]; known++) {
        if (strcasecmp(words[known].word, word) == 0) dtype = words[known].dtype;
    }
    *out = dtype;
    if (dtype != MODEL_DTYPE_UNKNOWN) return STATUS_OK;
    return refuse(runs, row, err, "precision is unknown:", word);
}

static const char *hardware_name(const ana_real_runs *runs, int row)
{
    const char *said = ana_real_text(runs, row, ANA_REAL_HARDWARE);
    return said[0] != '\0' ? shipped_name(model_shipped_hardware, said) : ANA_REAL_HARDWARE_DEFAULT;
}

/// PyTorch multiplies float32 as such unless TF32 is allowed, which containers of the vendor do by
/// default, and tables do not say. Both ends are possible: the middle of their rates is taken, and
/// all between them is drawn, and a little beyond, so that 9 of 10 draws have both.
static const double end_reach = 1.2;

static status write_hardware(const ana_real_runs *runs, int row, arena *memory, json_writer *writer,
                             ana_real_measured *measured, error_message *err)
{
    const char *name = hardware_name(runs, row);
    model_hardware hardware;
    model_dtype dtype;
    TRY(find_dtype(runs, row, &dtype, err));
    if (dtype != MODEL_DTYPE_FLOAT32) {
        json_put_string(writer, "hardware", name);
        return STATUS_OK;
    }
    TRY(model_hardware_open(name, NULL, memory, &hardware, err));
    const double least = (double)hardware.flop_per_s[MODEL_DTYPE_FLOAT32];
    const double most = (double)hardware.flop_per_s[MODEL_DTYPE_TFLOAT32];
    json_put_object(writer, "hardware");
    json_put_string(writer, "base", name);
    if (most > least && least > 0) {
        json_put_object(writer, "flop_per_s");
        json_put_int64(writer, "float32", (int64_t)sqrt(least * most));
        json_end_object(writer);
    }
    json_end_object(writer);
    measured->is_ambiguous = most > least && least > 0;
    if (!measured->is_ambiguous) return STATUS_OK;
    json_put_object(writer, "uncertainty");
    json_put_object(writer, "ranges");
    json_put_object(writer, "hardware.flop_per_s.float32");
    json_put_array(writer, "log");
    json_put_double(writer, NULL, least / end_reach);
    json_put_double(writer, NULL, most * end_reach);
    json_end_array(writer);
    json_end_object(writer);
    json_end_object(writer);
    json_end_object(writer);
    return STATUS_OK;
}

static const char *sharding_of(const ana_real_runs *runs, int row, const real_sizes *sizes)
{
    const char *said = ana_real_text(runs, row, ANA_REAL_SHARDING);
    if (said[0] != '\0') return said;
    // With a pipeline PyTorch gathers parameters once an iteration, and sums gradients first.
    if (sizes->fsdp > 1 && sizes->pp == 1) return "parameters";
    return sizes->fsdp > 1 || is_fused(runs, row) ? "optimizer" : "none";
}

/// A key of the training between 0 and 1; without a cell the fallback, or below 0 the study's own.
static status write_share(const ana_real_runs *runs, int row, ana_real_column column,
                          double fallback, const char *key, json_writer *writer, error_message *err)
{
    double share = 0;
    TRY(ana_real_number(runs, row, column, 0, 1, fallback, &share, err));
    if (share >= 0) json_put_double(writer, key, share);
    return STATUS_OK;
}

/// A flag of the training: 1 or true, 0 or false; without a cell the fallback.
static status write_flag(const ana_real_runs *runs, int row, ana_real_column column, bool fallback,
                         const char *key, json_writer *writer, error_message *err)
{
    static const char *const words[] = {"0", "1", "false", "true"};
    const char *said = ana_real_text(runs, row, column);
    int word = 0;
    while (word < 4 && strcasecmp(said, words[word]) != 0)
        word++;
    if (word == 4 && said[0] != '\0') {
        char what[64];
        snprintf(what, sizeof what, "%s is none of 0, 1, false and true:", ana_real_name(column));
        return refuse(runs, row, err, what, said);
    }
    json_put_bool(writer, key, word == 4 ? fallback : word % 2 == 1);
    return STATUS_OK;
}

static bool has_fused_norms(const ana_real_runs *runs, int row, ana_real_column column)
{
    return column == ANA_REAL_KERNELS &&
           strcasecmp(ana_real_text(runs, row, column), "fused-norms") == 0;
}

/// Whether a column says eager, all or all but norms and rotation, and not fused.
static status find_eager(const ana_real_runs *runs, int row, ana_real_column column,
                         const char *name, bool *is_eager, error_message *err)
{
    const char *word = ana_real_text(runs, row, column);
    char why[64];
    *is_eager = strcasecmp(word, "eager") == 0 || has_fused_norms(runs, row, column);
    if (word[0] == '\0' || *is_eager || strcasecmp(word, "fused") == 0) return STATUS_OK;
    snprintf(why, sizeof why, "%s is neither fused nor eager%s:", name,
             column == ANA_REAL_KERNELS ? " nor fused-norms" : "");
    return refuse(runs, row, err, why, word);
}

static status write_training(const ana_real_runs *runs, int row, const real_sizes *sizes,
                             const char *recompute, json_writer *writer, error_message *err)
{
    const bool fused = is_fused(runs, row);
    model_dtype dtype;
    int layers = 0;
    const bool has_model = ana_real_text(runs, row, ANA_REAL_MODEL)[0] != '\0';
    bool is_eager = false;
    bool has_eager_loss = false;
    TRY(find_eager(runs, row, ANA_REAL_KERNELS, "kernels", &is_eager, err));
    TRY(find_eager(runs, row, ANA_REAL_LOSS, "loss", &has_eager_loss, err));
    if (attention_of(runs, row) == MODEL_ATTENTION_COUNT) {
        return refuse(runs, row, err, "attention is none of fused, flash-2 and unfused:",
                      ana_real_text(runs, row, ANA_REAL_ATTENTION));
    }
    TRY(find_dtype(runs, row, &dtype, err));
    TRY(ana_real_int(runs, row, ANA_REAL_LAYERS, 1, COUNT_MAX, 0, &layers, err));
    json_put_object(writer, "training");
    if (layers > 0 && has_model) json_put_int64(writer, "layers", layers);
    json_put_int64(writer, "sequence_length", sizes->sequence);
    json_put_int64(writer, "microbatch_size", sizes->microbatch);
    json_put_int64(writer, "global_batch", sizes->global_batch);
    json_put_int64(writer, "data_parallel", sizes->dp);
    json_put_int64(writer, "tensor_parallel", sizes->tp);
    json_put_int64(writer, "context_parallel", sizes->cp);
    if (sizes->ep > 1) json_put_int64(writer, "expert_parallel", sizes->ep);
    // Recipes of today spread whole experts over the GPUs of tensor parallelism.
    const int etp = sizes->etp == 0 && sizes->ep > 1 && fused ? 1 : sizes->etp;
    if (etp > 0) json_put_int64(writer, "expert_tensor_parallel", etp);
    if (sizes->tp > 1) {
        TRY(write_flag(runs, row, ANA_REAL_SEQUENCE_PARALLEL, fused, "sequence_parallel", writer,
                       err));
    }
    json_put_string(writer, "recompute", recompute);
    json_put_string(writer, "sharding", sharding_of(runs, row, sizes));
    TRY(write_share(runs, row, ANA_REAL_TENSOR_OVERLAP, fused ? MODEL_TENSOR_OVERLAP_DEFAULT : 0,
                    "tensor_overlap", writer, err));
    TRY(write_share(runs, row, ANA_REAL_EXPERT_OVERLAP, -1, "expert_overlap", writer, err));
    TRY(write_share(runs, row, ANA_REAL_EXPERT_DEDUPLICATION, -1, "expert_deduplication", writer,
                    err));
    json_put_string(writer, "rank_order", "data-first");
    json_put_string(writer, "reduction_overlap", fused ? "backward" : "none");
    json_put_string(writer, "dtype", model_dtype_name(dtype));
    json_put_string(writer, "attention", model_attention_names[attention_of(runs, row)]);
    json_put_bool(writer, "eager", is_eager);
    json_put_bool(writer, "fused_norms", has_fused_norms(runs, row, ANA_REAL_KERNELS));
    json_put_bool(writer, "eager_loss", has_eager_loss);
    for (int flag = ANA_REAL_BLOCKING_LAUNCHES; flag <= ANA_REAL_CUDA_GRAPHS; flag++) {
        const ana_real_column column = (ana_real_column)flag;
        TRY(write_flag(runs, row, column, false, ana_real_name(column), writer, err));
    }
    int gradient_bytes = 0;
    TRY(ana_real_int(runs, row, ANA_REAL_GRADIENT_BYTES, 1, 8, 0, &gradient_bytes, err));
    if (gradient_bytes > 0) json_put_int64(writer, "gradient_bytes_per_parameter", gradient_bytes);
    json_end_object(writer);
    return STATUS_OK;
}

static status write_cluster(const ana_real_runs *runs, int row, const real_sizes *sizes,
                            json_writer *writer, error_message *err)
{
    int gpus_per_node = 0;
    TRY(ana_real_int(runs, row, ANA_REAL_GPUS_PER_NODE, 1, NODE_GPUS_MAX, 0, &gpus_per_node, err));
    json_put_object(writer, "cluster");
    json_put_int64(writer, "gpus", sizes->gpus);
    if (gpus_per_node > 0) json_put_int64(writer, "gpus_per_node", gpus_per_node);
    json_put_int64(writer, "memory_bytes", 0);
    if (!is_fused(runs, row)) json_put_string(writer, "send", "blocking");
    json_end_object(writer);
    return STATUS_OK;
}

/// Numbers, apart by anything else: "7 8 8 7".
static void write_split(const char *said, json_writer *writer)
{
    json_put_array(writer, "layers_per_stage");
    for (const char *at = said + strcspn(said, DIGITS); *at != '\0'; at += strcspn(at, DIGITS)) {
        json_put_int64(writer, NULL, strtol(at, NULL, 10));
        at += strspn(at, DIGITS);
    }
    json_end_array(writer);
}

static bool has_split(const ana_real_runs *runs, int row)
{
    return ana_real_text(runs, row, ANA_REAL_LAYERS_PER_STAGE)[0] != '\0';
}

/// How layers are split where no column says it.
typedef struct usual_split {
    const char *balancer;
    int stage_count;
    int layers_per_stage; // embedding and head count as a layer each; 0: the balancer decides
} usual_split;

/// Layers divide among the stages, or do so with embedding and head; else, and with modules of
/// prediction beside the head, a layout is made by hand: here the one with the least bottleneck. A
/// model that cannot be read is refused where it is played.
static usual_split split_of(const ana_real_runs *runs, int row, const real_sizes *sizes,
                            arena *memory)
{
    const char *model = ana_real_text(runs, row, ANA_REAL_MODEL);
    const bal_schedule_family *family =
        bal_schedule_family_find(ana_real_text(runs, row, ANA_REAL_SCHEDULE));
    const bool is_v = family != NULL && family->placement == BAL_PLACEMENT_V;
    const int64_t stages = (int64_t)sizes->pp * (is_v ? 2 : sizes->vp);
    model_config config;
    if (has_split(runs, row)) return (usual_split){.balancer = "given"};
    if (model[0] == '\0' || sizes->pp == 1 ||
        model_config_open(shipped_name(model_shipped_configs, model), NULL, memory, &config,
                          NULL) != STATUS_OK) {
        return (usual_split){.balancer = "even"};
    }
    int layers = config.layer_count;
    (void)ana_real_int(runs, row, ANA_REAL_LAYERS, 1, COUNT_MAX, layers, &layers, NULL);
    const bool has_prediction = config.prediction_layer_count > 0;
    if (stages > layers + 2) return (usual_split){.balancer = "even"}; // refused likewise
    if (layers % stages == 0 && !has_prediction) return (usual_split){.balancer = "even"};
    if ((layers + 2) % stages == 0 && !has_prediction) {
        return (usual_split){"given", (int)stages, (layers + 2) / (int)stages};
    }
    return (usual_split){.balancer = is_v            ? "v-partition"
                                     : sizes->vp > 1 ? "interleaved-partition"
                                                     : "partition"};
}

static void write_equal_split(int stage_count, int layers, json_writer *writer)
{
    json_put_array(writer, "layers_per_stage");
    for (int stage = 0; stage < stage_count; stage++) {
        json_put_int64(writer, NULL, layers);
    }
    json_end_array(writer);
}

static void write_pipeline(const ana_real_runs *runs, int row, const real_sizes *sizes,
                           const usual_split *split, json_writer *writer)
{
    const char *schedule = ana_real_text(runs, row, ANA_REAL_SCHEDULE);
    const bool interleaves = sizes->vp > 1 && sizes->pp > 1;
    const char *usual = interleaves ? "interleaved-1f1b" : "1f1b";
    json_put_object(writer, "pipeline");
    json_put_int64(writer, "stages", sizes->pp);
    json_put_string(writer, "schedule", schedule[0] != '\0' ? schedule : usual);
    if (interleaves) json_put_int64(writer, "chunks", sizes->vp);
    if (has_split(runs, row)) {
        write_split(ana_real_text(runs, row, ANA_REAL_LAYERS_PER_STAGE), writer);
    } else if (split->layers_per_stage > 0) {
        write_equal_split(split->stage_count, split->layers_per_stage, writer);
    }
    json_end_object(writer);
}

static status read_measured(const ana_real_runs *runs, int row, const real_sizes *sizes,
                            ana_real_measured *measured, error_message *err)
{
    double ms = 0;
    double s = 0;
    double tokens_per_s = 0;
    double allocated_gib = 0;
    const double least = 1e-9;
    const double most = 1e15;
    TRY(ana_real_number(runs, row, ANA_REAL_MEASURED_MS, least, most, 0, &ms, err));
    TRY(ana_real_number(runs, row, ANA_REAL_MEASURED_S, least, most, 0, &s, err));
    TRY(ana_real_number(runs, row, ANA_REAL_TOKENS_PER_S, least, most, 0, &tokens_per_s, err));
    TRY(ana_real_number(runs, row, ANA_REAL_MEASURED_BYTES, 1, 1e18, 0, &measured->peak_bytes,
                        err));
    TRY(ana_real_number(runs, row, ANA_REAL_ALLOCATED_GIB, 1e-9, 1e9, 0, &allocated_gib, err));
    measured->is_allocated = measured->peak_bytes == 0;
    if (measured->is_allocated) measured->peak_bytes = allocated_gib * (1 << 30);
    measured->tokens = (double)sizes->global_batch * sizes->sequence;
    measured->gpu_count = sizes->gpus;
    measured->iteration_ns = ms > 0 ? ms * 1e6 : s * 1e9;
    if (ms == 0 && s == 0 && tokens_per_s > 0) {
        measured->iteration_ns = measured->tokens / (tokens_per_s * sizes->gpus) * 1e9;
    }
    if (measured->iteration_ns > 0) return STATUS_OK;
    return refuse(runs, row, err, "nothing was measured", "");
}

/// Whether activations may wait on the host: it has a link that keeps up with a dense model; those
/// of experts are too many for what is computed of them.
static bool may_offload(const ana_real_runs *runs, int row, arena *memory)
{
    model_hardware hardware;
    model_config config;
    const char *model =
        shipped_name(model_shipped_configs, ana_real_text(runs, row, ANA_REAL_MODEL));
    return model_hardware_open(hardware_name(runs, row), NULL, memory, &hardware, NULL) ==
               STATUS_OK &&
           hardware.host.bytes_per_s > 0 &&
           model_config_open(model, NULL, memory, &config, NULL) == STATUS_OK &&
           config.expert_count == 0;
}

const char *ana_real_recompute(const ana_real_runs *runs, int row, int attempt, arena *memory)
{
    enum { FUSED = 7, UNFUSED = 3, OFFLOAD = 4 };
    static const char *const fused[FUSED] = {"none",    "norms", "activation", "latent",
                                             "offload", "mlp",   "full"};
    static const char *const unfused[UNFUSED] = {"none", "selective", "full"};
    const char *said = ana_real_text(runs, row, ANA_REAL_RECOMPUTE);
    if (said[0] != '\0') return attempt == 0 ? said : NULL;
    if (!is_fused(runs, row)) return attempt < UNFUSED ? unfused[attempt] : NULL;
    if (attempt >= OFFLOAD && !may_offload(runs, row, memory)) attempt++;
    return attempt < FUSED ? fused[attempt] : NULL;
}

status ana_real_study_write(const ana_real_runs *runs, int row, const char *recompute,
                            arena *memory, text_buffer *out, ana_real_measured *measured,
                            error_message *err)
{
    real_sizes sizes = {0};
    json_writer writer = json_writer_init(out);
    TRY(read_sizes(runs, row, &sizes, err));
    TRY(read_measured(runs, row, &sizes, measured, err));
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-study/1");
    TRY(write_model(runs, row, &sizes, &writer, err));
    TRY(write_hardware(runs, row, memory, &writer, measured, err));
    TRY(write_cluster(runs, row, &sizes, &writer, err));
    TRY(write_training(runs, row, &sizes, recompute, &writer, err));
    const usual_split split = split_of(runs, row, &sizes, memory);
    write_pipeline(runs, row, &sizes, &split, &writer);
    json_put_array(&writer, "balancing");
    json_begin_object(&writer);
    json_put_string(&writer, "balancer", split.balancer);
    json_end_object(&writer);
    json_end_array(&writer);
    json_end_object(&writer);
    return STATUS_OK;
}

const char ana_real_defaults[] =
    "hardware: h100-sxm; precision: bf16; attention: fused; recompute: none, or where that needs "
    "more memory than the GPU has the least of norms, activation, latent, offload (links.host, "
    "dense), mlp, full (unfused: selective, full) that fits; sequence: 2048; microbatch: 1; "
    "degrees: 1; gpus, dp: by the other degrees; sharding: parameters with fsdp above 1 and one "
    "stage, optimizer with several or where attention is fused, else none; kernels, loss: fused; "
    "sequence_parallel and gradients reduced under the backward: where attention is fused; "
    "tensor_overlap: 0.7 where attention is fused, else 0; expert_overlap: 0; "
    "expert_deduplication: 0.5 (all-to-all 0, DeepEP 1); etp: 1 where attention is fused, else "
    "as tp; layers_per_stage: even, without embedding and head or with them, or the least "
    "bottleneck where a model's layers do not divide so or it predicts several tokens; schedule: "
    "1f1b, interleaved with vp; vocabulary: 51200; attention_heads: hidden_size / 64; dropout: 0.1 "
    "of models given by sizes";

void ana_real_group(const ana_real_runs *runs, int row, text_buffer *out)
{
    static const ana_real_column alike[] = {
        ANA_REAL_MODEL,         ANA_REAL_PARAMETERS, ANA_REAL_LAYERS,       ANA_REAL_HIDDEN,
        ANA_REAL_HEADS,         ANA_REAL_VOCABULARY, ANA_REAL_HARDWARE,     ANA_REAL_GPUS,
        ANA_REAL_GPUS_PER_NODE, ANA_REAL_PRECISION,  ANA_REAL_GLOBAL_BATCH, ANA_REAL_SEQUENCE,
    };
    const char *said = ana_real_text(runs, row, ANA_REAL_GROUP);
    text_append(out, said);
    if (said[0] != '\0') return;
    for (size_t column = 0; column < sizeof alike / sizeof alike[0]; column++) {
        text_format(out, "%s|", ana_real_text(runs, row, alike[column]));
    }
}
