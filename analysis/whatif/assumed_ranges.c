#include "analysis/whatif/assumed_ranges.h"

#include <assert.h>
#include <string.h>

#define LATENCY_MAX_NS 1e12
#define RATE_MAX 1e15

/// Of nccl-tests; each writes the file that a study takes as a link's `measured` (measured_link.h).
#define INTRA_COMMAND "two GPUs of a node: sendrecv_perf -b 8 -e 1G -f 2 -g 2 -J intra.json"
#define INTER_COMMAND                                                                              \
    "two nodes: mpirun -np 2 -N 1 sendrecv_perf -b 8 -e 1G -f 2 -g 1 -J inter.json"

/// Ranges are judgements, not measurements; each says what it rests on.
const ana_assumed_range ana_assumed_ranges[] = {
    {"hardware.efficiency.gemm",
     "efficiency.gemm",
     true,
     false,
     {ANA_TRIANGULAR, true, 0.8, 1.15, 1},
     1e-6,
     1,
     "",
     "shapes, clocks under load and library versions"},
    {"hardware.efficiency.attention",
     "efficiency.attention",
     true,
     false,
     {ANA_TRIANGULAR, true, 0.7, 1.3, 1},
     1e-6,
     1,
     "",
     "sequence length, head size and kernel"},
    {"hardware.efficiency.memory",
     "efficiency.memory",
     true,
     false,
     {ANA_TRIANGULAR, true, 0.85, 1.1, 1},
     1e-6,
     1,
     "",
     "how many small kernels are fused"},
    {"hardware.overhead.operator_ns",
     "overhead",
     true,
     true,
     {ANA_LOG_UNIFORM, true, 0.3, 1.6, 1},
     0,
     LATENCY_MAX_NS,
     "ns",
     "graphs of kernels, speed of the host, how much is fused"},
    {"hardware.overhead.kernel_ns",
     "overhead",
     true,
     true,
     {ANA_LOG_UNIFORM, true, 0.5, 2, 1},
     0,
     LATENCY_MAX_NS,
     "ns",
     "gaps between kernels, and kernels that are too short to fill a GPU"},
    {"cluster.links.intra.latency_ns",
     "cluster.links.intra.latency_ns",
     true,
     true,
     {ANA_LOG_UNIFORM, true, 0.5, 3, 1},
     0,
     LATENCY_MAX_NS,
     "ns",
     "message size, protocol and process placement"},
    {"cluster.links.inter.latency_ns",
     "cluster.links.inter.latency_ns",
     true,
     true,
     {ANA_LOG_UNIFORM, true, 0.5, 3, 1},
     0,
     LATENCY_MAX_NS,
     "ns",
     "switches between the nodes, protocol and process placement"},
    {"cluster.links.intra.bytes_per_s",
     "cluster.links.intra.bytes_per_s",
     true,
     true,
     {ANA_UNIFORM, true, 0.75, 1, 1},
     1,
     RATE_MAX,
     "B/s",
     "no message reaches the printed rate"},
    {"cluster.links.inter.bytes_per_s",
     "cluster.links.inter.bytes_per_s",
     true,
     true,
     {ANA_UNIFORM, true, 0.75, 1, 1},
     1,
     RATE_MAX,
     "B/s",
     "no message reaches the printed rate; others share the switches"},
    {"training.decision_ns",
     "training.decision_ns",
     false,
     true,
     {ANA_UNIFORM, false, 0, 1e7, 0},
     0,
     LATENCY_MAX_NS,
     "ns",
     "balancers here take microseconds to milliseconds; gathering profiles comes on top"},
    {.path = NULL},
};

static const ana_input *find_input(const ana_inputs *inputs, const char *name)
{
    for (int input = 0; input < inputs->count; input++) {
        if (strcmp(inputs->entries[input].name, name) == 0) return &inputs->entries[input];
    }
    return NULL;
}

bool ana_assumed_range_holds(const ana_assumed_range *row, const ana_setup *setup)
{
    const ana_inputs *inputs = &setup->study->inputs;
    const ana_input *said = find_input(inputs, row->path); // in the study, before any file
    const ana_input *input = said != NULL ? said : find_input(inputs, row->input);
    const bool has_overhead = setup->hardware.operator_ns > 0 && setup->hardware.kernel_ns > 0;
    if (input != NULL && strcmp(input->name, "overhead") == 0 && !has_overhead) return false;
    const bool decides = setup->study->balancings[0].policy.kind != BAL_POLICY_NEVER;
    if (input == NULL || (strcmp(row->path, "training.decision_ns") == 0 && !decides)) return false;
    if (input->origin == MODEL_ORIGIN_ASSUMED) return true;
    return input->origin == MODEL_ORIGIN_PRESET && strstr(row->path, ".bytes_per_s") != NULL;
}

double ana_assumed_range_value(const ana_assumed_range *row, const ana_setup *setup)
{
    const model_hardware *hardware = &setup->hardware;
    const struct {
        const char *path;
        double value;
    } values[] = {
        {"hardware.efficiency.gemm", hardware->gemm_efficiency},
        {"hardware.efficiency.attention", hardware->attention_efficiency},
        {"hardware.efficiency.memory", hardware->memory_efficiency},
        {"hardware.overhead.operator_ns", (double)hardware->operator_ns},
        {"hardware.overhead.kernel_ns", (double)hardware->kernel_ns},
        {"cluster.links.intra.latency_ns", (double)hardware->intra_node.latency_ns},
        {"cluster.links.inter.latency_ns", (double)hardware->inter_node.latency_ns},
        {"cluster.links.intra.bytes_per_s", (double)hardware->intra_node.bytes_per_s},
        {"cluster.links.inter.bytes_per_s", (double)hardware->inter_node.bytes_per_s},
        {"training.decision_ns", (double)setup->study->decision_ns},
    };
    for (size_t known = 0; known < sizeof values / sizeof values[0]; known++) {
        if (strcmp(row->path, values[known].path) == 0) return values[known].value;
    }
    assert(false); // every row of the table has a value
    return 0;
}

const char *ana_measurement_of(const char *path)
{
    static const struct {
        const char *prefix;
        const char *command;
    } measurements[] = {
        {"hardware.efficiency.gemm", "dynmo probe --device cuda --hardware NAME -o node.json"},
        {"hardware.efficiency.attention", "dynmo probe --device cuda --hardware NAME -o node.json"},
        {"hardware.efficiency.memory", "dynmo probe --device cuda --hardware NAME -o node.json"},
        {"hardware.overhead", "a trace of a few iterations: dynmo import kineto"},
        {"hardware.memory_bytes_per_s", "dynmo probe --device cuda --hardware NAME -o node.json"},
        {"hardware.flop_per_s", "dynmo probe --device cuda --hardware NAME -o node.json"},
        {"hardware.links.intra", INTRA_COMMAND},
        {"cluster.links.intra", INTRA_COMMAND},
        {"hardware.links.inter", INTER_COMMAND},
        {"cluster.links.inter", INTER_COMMAND},
        {"cluster.price", "a quote for this number of GPUs"},
        {"cluster.mtbf_hours", "failed jobs of the cluster over its GPU-hours (sacct)"},
        {"training.checkpoint_s", "one checkpoint of this size, timed"},
        {"training.restart_s", "one restart from a checkpoint, timed"},
        {"training", "a short run, recorded: dynmo import kineto"},
        {"dynamism", "a recorded trace of the model's loads: dynmo import"},
        {"recorded variation", "more iterations in the trace"},
        {"calibration", "runs of the sizes in question: dynmo calibrate"},
        {"cost model", "a few iterations of this shape on one node, timed: dynmo calibrate"},
    };
    for (size_t row = 0; row < sizeof measurements / sizeof measurements[0]; row++) {
        const size_t length = strlen(measurements[row].prefix);
        if (strncmp(path, measurements[row].prefix, length) == 0) return measurements[row].command;
    }
    return "a measurement of it, put into the study";
}
