/// `dynmo probe`: measures one node and writes its hardware file.
#include "base/launcher.h"
#include "cli/commands.h"
#include "cli/probe/probe.h"
#include "cli/progress.h"

#include "base/file.h"
#include "exec/transport/transport.h"

#include <string.h>
#include <unistd.h>

enum { TOKENS_MAX = 1 << 20 };

/// What the command line asks for.
typedef struct probe_request {
    const char *device; // "cpu" or "cuda"
    const char *transport;
    const char *model;
    const char *output; // or NULL
    const char *name;
    bool is_bf16;
    int rank_count;
    int tokens;
    int64_t budget_ns;
    int64_t bytes; // of the copy
} probe_request;

/// The option as one of some names, the first if it is not given.
static status one_of(const cli_arguments *arguments, const char *option, const char *const *names,
                     int count, const char **chosen, error_message *err)
{
    int index = 0;
    TRY(cli_choice(arguments, option, names, count, 0, &index, err));
    *chosen = names[index];
    return STATUS_OK;
}

/// Ranks that a launcher has started; 2 where none has.
static int launched_ranks(const char *transport)
{
    const char *variable = NULL;
    const int count = launcher_process_count(&variable);
    return strcmp(transport, "local") == 0 || variable == NULL ? 2 : count;
}

static status read_numbers(const cli_arguments *arguments, probe_request *request,
                           error_message *err)
{
    const bool is_cuda = strcmp(request->device, "cuda") == 0;
    double budget = 0.2;
    TRY(cli_int(arguments, "--ranks", 1, EXEC_PROBE_RANKS_MAX, launched_ranks(request->transport),
                &request->rank_count, err));
    TRY(cli_int(arguments, "--tokens", 1, TOKENS_MAX, is_cuda ? 4096 : 512, &request->tokens, err));
    TRY(cli_double(arguments, "--seconds", 0.001, 60, &budget, err));
    request->budget_ns = (int64_t)(budget * 1e9);
    request->bytes = INT64_C(256) << 20;
    return cli_int64(arguments, "--bytes", 4096, INT64_C(1) << 36, &request->bytes, err);
}

static status read_request(const cli_arguments *arguments, probe_request *request,
                           error_message *err)
{
    static const char *const devices[] = {"cpu", "cuda"};
    static const char *const precisions[] = {"bf16", "fp32"};
    const char *precision = NULL;
    TRY(one_of(arguments, "--device", devices, 2, &request->device, err));
    TRY(one_of(arguments, "--transport", exec_transport_names, EXEC_TRANSPORT_COUNT,
               &request->transport, err));
    TRY(one_of(arguments, "--precision", precisions, 2, &precision, err));
    const bool is_cuda = strcmp(request->device, "cuda") == 0;
    if (!is_cuda && cli_has(arguments, "--precision")) {
        return error_set(err, STATUS_INVALID, "--precision: device cpu computes in fp32");
    }
    if (is_cuda && !cli_has(arguments, "--hardware")) {
        return error_set(err, STATUS_INVALID,
                         "--hardware is needed on cuda: efficiency is told as a share of its dense "
                         "peak, which no product reaches");
    }
    TRY(exec_transport_check(request->transport, request->device, err));
    request->is_bf16 = is_cuda && strcmp(precision, "bf16") == 0;
    request->model = cli_value_or(arguments, "--model", is_cuda ? "llama-2-7b" : "gpt2");
    request->output = cli_value(arguments, "--output");
    request->name = cli_value_or(arguments, "--name", "probed");
    return read_numbers(arguments, request, err);
}

static status open_backend(const probe_request *request, exec_kernels **kernels, error_message *err)
{
    if (strcmp(request->device, "cuda") == 0) {
        return exec_kernels_cuda_open(request->is_bf16 ? EXEC_CUDA_BF16 : EXEC_CUDA_FP32, 0, 1,
                                      kernels, err);
    }
    return exec_kernels_cpu_open(kernels);
}

/// Physical memory for each core that is online.
static void find_host_memory(cli_probe_report *report)
{
    const int64_t pages = sysconf(_SC_PHYS_PAGES);
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
    report->rank_capacity = cores > 0 && cores < (1 << 16) ? (int)cores : 1;
    report->memory_bytes = pages > 0 && page > 0 ? pages * page / report->rank_capacity : 1;
    report->memory_text = "the machine's, for each core that is online";
}

static void find_memory(const probe_request *request, exec_kernels *kernels,
                        cli_probe_report *report)
{
    if (strcmp(request->device, "cpu") == 0) {
        find_host_memory(report);
    } else {
        report->memory_bytes = exec_probe_capacity(kernels, INT64_C(1) << 40);
        report->memory_text = "the largest piece that the device gives out";
        report->rank_capacity = report->links.count > 0 ? report->links.rank_count : 1;
    }
    if (report->preset != NULL) report->rank_capacity = report->preset->gpus_per_node;
}

/// Operands are made on the host, whatever the device.
static status check_host_memory(const probe_request *request, const cli_probe_list *list,
                                error_message *err)
{
    const double half = memory_half_of_machine();
    for (int index = 0; index < list->count; index++) {
        const exec_matmul *shape = &list->rows[index].shape;
        if (list->rows[index].kind != EXEC_PROBE_PRODUCT) continue;
        const double values = (double)shape->rows * shape->inner +
                              (double)shape->inner * shape->columns +
                              (double)shape->rows * shape->columns;
        const double bytes = values * 2 * sizeof(float); // on the host and on the device
        if (bytes <= half) continue;
        return error_set(err, STATUS_INVALID,
                         "--tokens %d: product '%s' takes %.0f GB, half of this machine's memory "
                         "is %.0f GB",
                         request->tokens, list->rows[index].name, bytes / 1e9, half / 1e9);
    }
    return STATUS_OK;
}

static status measure_with(const probe_request *request, exec_kernels *kernels,
                           cli_probe_report *report, error_message *err)
{
    cli_probe_list *list = &report->device_list;
    status measured = STATUS_OK;
    report->backend = kernels->table->name;
    cli_progress progress = cli_progress_begin("measurements", list->count);
    for (int index = 0; index < list->count && measured == STATUS_OK; index++) {
        measured = exec_probe_measure(kernels, request->budget_ns, &list->rows[index], err);
        cli_progress_step(&progress);
    }
    cli_progress_end(&progress);
    if (measured == STATUS_OK) find_memory(request, kernels, report);
    return measured;
}

static status measure_device(const probe_request *request, arena *memory, cli_probe_report *report,
                             error_message *err)
{
    // Squares for the peak, with sides that the device fills.
    static const int cpu_sides[] = {256, 512, 1024};
    static const int cuda_sides[] = {2048, 4096, 8192};
    const bool is_little = request->bytes < (1 << 24); // memory, and so work
    const bool is_large = !is_little && strcmp(request->device, "cuda") == 0;
    model_config config;
    exec_kernels *kernels = NULL;
    TRY(model_config_open(request->model, NULL, memory, &config, err));
    TRY(cli_probe_list_of(&config, request->tokens, report->dtype, request->bytes,
                          request->is_bf16 ? 2 : 4, is_large ? cuda_sides : cpu_sides,
                          is_little ? 1 : 3, memory, &report->device_list, err));
    TRY(check_host_memory(request, &report->device_list, err));
    TRY(open_backend(request, &kernels, err));
    const status result = measure_with(request, kernels, report, err);
    kernels->table->close(kernels);
    return result;
}

/// The file is read as `dynmo model` will read it before it is written.
static status write_file(const probe_request *request, const cli_probe_report *report,
                         const cli_probe_result *result, arena *memory, error_message *err)
{
    text_buffer file = {.memory = memory};
    json_document *document = NULL;
    model_hardware hardware;
    cli_probe_write_hardware(report, result, &file);
    TRY(json_open_bytes("what was measured", file.bytes, file.length, &document, err));
    json_keep(document, memory);
    TRY(model_hardware_read(document, report->name, memory, &hardware, err));
    if (request->output == NULL) return STATUS_OK;
    return file_write(request->output, file.bytes, file.length, err);
}

static status report_all(const cli_arguments *arguments, const probe_request *request,
                         const cli_probe_report *report, arena *memory, text_buffer *out,
                         error_message *err)
{
    cli_probe_result result;
    TRY(cli_probe_result_of(report, memory, &result, err));
    TRY(write_file(request, report, &result, memory, err));
    (cli_has(arguments, "--json") ? cli_probe_write : cli_probe_print)(report, &result, out);
    return STATUS_OK;
}

/// Links first, with all ranks; then the leader measures its device alone.
static status probe(const cli_arguments *arguments, const probe_request *request, arena *memory,
                    text_buffer *out, error_message *err)
{
    model_hardware preset;
    cli_probe_report report = {.name = request->name,
                               .device = request->device,
                               .command = cli_command_line(arguments),
                               .model = request->model,
                               .tokens = request->tokens,
                               .dtype =
                                   request->is_bf16 ? MODEL_DTYPE_BFLOAT16 : MODEL_DTYPE_FLOAT32};
    if (cli_has(arguments, "--hardware")) {
        TRY(model_hardware_open(cli_value(arguments, "--hardware"), NULL, memory, &preset, err));
        report.preset = &preset;
        report.uses_preset_peak = strcmp(request->device, "cuda") == 0;
    }
    if (request->rank_count > 1) {
        TRY(exec_probe_links_measure(request->transport, request->rank_count, request->bytes / 4,
                                     strcmp(request->device, "cuda") == 0, memory, &report.links,
                                     err));
        if (!report.links.is_leader) return STATUS_OK;
        report.transport = request->transport;
    } else if (report.preset == NULL) {
        return error_set(err, STATUS_INVALID,
                         "links are between ranks: one rank has none, and --hardware names none to "
                         "take instead");
    }
    TRY(measure_device(request, memory, &report, err));
    return report_all(arguments, request, &report, memory, out, err);
}

/// One process speaks for all, also of what went wrong.
static status run(const cli_arguments *arguments, arena *memory, text_buffer *out,
                  error_message *err)
{
    probe_request request;
    const char *transport = "mpi"; // as long as it is not known: as if a launcher had started it
    status ended = read_request(arguments, &request, err);
    if (ended == STATUS_OK) {
        transport = request.transport;
        ended = probe(arguments, &request, memory, out, err);
    }
    return exec_transport_end(transport, ended, err);
}

const cli_command cli_command_probe = {
    .name = "probe",
    .synopsis = "[--device cpu|cuda] [--transport local|mpi|tcp|nccl] [-o HARDWARE.json] [--json]",
    .summary = "measures one node and writes its hardware file",
    .description =
        "Measures what the cost model and the simulator assume of a machine, and writes it as a "
        "hardware file that `dynmo model` and `diagnose` take with --hardware, `study` with --gpu, "
        "and any study as \"hardware\". Every entry's source says what was measured, by which "
        "command."
        "\n\n"
        "Products are those of F, B and W of one layer and the head of --model; attention is "
        "causal over one sequence. The peak is the fastest product on cpu, and the preset's rate "
        "on cuda. The device is measured while nothing else of the probe runs."
        "\n\n"
        "Links: every two ranks in turn send messages of 64 bytes and every fourfold up to a "
        "quarter of --bytes there and back. `local` is threads of one process; `mpi` needs `mpirun "
        "-n RANKS dynmo probe --transport mpi`, or srun, and tells links within a node from those "
        "between nodes by the names of their hosts; so does `tcp` under srun or torchrun; `nccl` "
        "has a GPU for each rank, of one process or of those. A kind of link that no two ranks "
        "have is taken from --hardware, or from the other kind, and the file says so.",
    .options =
        {
            {"--device", "D", .help = "cpu: one core in fp32; cuda: the first GPU. Default: cpu."},
            {"--precision", "P", .help = "On cuda: bf16 or fp32. Default: bf16."},
            {"--transport", "T", .help = "local, mpi, tcp or nccl, for the links. Default: local."},
            {"--ranks", "N",
             .help = "Ranks between which links are measured. Default: what the launcher says, "
                     "else 2."},
            {"--model", "CONFIG",
             .help = "Model whose products are measured: a Hugging Face config.json or a shipped "
                     "one. Default: gpt2 on cpu, llama-2-7b on cuda."},
            {"--tokens", "N",
             .help = "Tokens of a microbatch, one sequence. Default: 512 on cpu, 4096 on cuda."},
            {"--hardware", "NAME",
             .help = "Hardware file or preset for what is not measured; its rate is the peak on "
                     "cuda, where it is needed."},
            {"--seconds", "S",
             .help = "Time for each measurement, in s; at least 5 samples in any case. Default: "
                     "0.2."},
            {"--bytes", "N",
             .help = "Bytes of the copy that measures memory, and four times those of the longest "
                     "message. Default: 268435456."},
            {"--name", "NAME", .help = "Name in the file. Default: probed."},
            {"--output", "FILE", .is_output = true, .letter = 'o',
             .help = "The hardware file. Default: it is not written."},
            {"--json", .help = "Prints every measurement as one line of JSON (dynmo-probe/1)."},
        },
    .operand_min = 0,
    .operand_max = 0,
    .run = run,
};
