/// The ranges of what nobody has measured, and what would measure it.
#include "analysis/whatif/draws.h"

#include <assert.h>
#include <string.h>

#define LATENCY_MAX_NS 1e12
#define RATE_MAX 1e15

/// Of nccl-tests.
#define INTRA_COMMAND "two GPUs of a node: sendrecv_perf -b 8 -e 1G -f 2 -g 2"
#define INTER_COMMAND "two nodes: mpirun -np 2 -N 1 sendrecv_perf -b 8 -e 1G -f 2 -g 1"

static const ana_assumed_kind efficiency = {ANA_TRIANGULAR, true, false, 1e-6, 1, ""};
static const ana_assumed_kind overhead = {ANA_LOG_UNIFORM, true, true, 0, LATENCY_MAX_NS, "ns"};
static const ana_assumed_kind rate = {ANA_UNIFORM, true, true, 1, RATE_MAX, "B/s"};
static const ana_assumed_kind share = {ANA_UNIFORM, false, false, 0, 1, ""};
static const ana_assumed_kind decision = {ANA_UNIFORM, false, true, 0, LATENCY_MAX_NS, "ns"};

/// Ranges are judgements, not measurements; each says what it rests on.
const ana_assumed_range ana_assumed_ranges[] = {
    {"hardware.efficiency.gemm", "efficiency.gemm", &efficiency, 0.8, 1.15,
     "shapes, clocks under load and library versions"},
    {"hardware.efficiency.attention", "efficiency.attention", &efficiency, 0.7, 1.3,
     "sequence length, head size and kernel"},
    {"hardware.efficiency.memory", "efficiency.memory", &efficiency, 0.85, 1.1,
     "how many small kernels are fused"},
    {"hardware.overhead.operator_ns", "overhead", &overhead, 0.5, 1.6,
     "speed of the host, how much is fused"},
    {"hardware.overhead.kernel_ns", "overhead", &overhead, 0.5, 2,
     "gaps between kernels, and kernels that are too short to fill a GPU"},
    {"cluster.links.intra.latency_ns", "cluster.links.intra.latency_ns", &overhead, 0.5, 3,
     "message size, protocol and process placement"},
    {"cluster.links.inter.latency_ns", "cluster.links.inter.latency_ns", &overhead, 0.5, 3,
     "switches between the nodes, protocol and process placement"},
    {"cluster.links.intra.bytes_per_s", "cluster.links.intra.bytes_per_s", &rate, 0.75, 1,
     "no message reaches the printed rate"},
    {"cluster.links.inter.bytes_per_s", "cluster.links.inter.bytes_per_s", &rate, 0.75, 1,
     "no message reaches the printed rate; others share the switches"},
    {"training.expert_deduplication", "expert_deduplication", &share, 0, 1,
     "all-to-alls send a token once for each expert, DeepEP and HybridEP once to each GPU"},
    {"training.decision_ns", "training.decision_ns", &decision, 0, 1e7,
     "balancers here take microseconds to milliseconds; gathering profiles comes on top"},
    {.path = NULL},
};

double ana_assumed_range_value(const ana_assumed_range *row, const ana_setup *setup)
{
    const model_hardware *hardware = &setup->hardware;
    const double values[] = {
        // In the order of the table.
        hardware->gemm_efficiency,
        hardware->attention_efficiency,
        hardware->memory_efficiency,
        (double)hardware->operator_ns,
        (double)hardware->kernel_ns,
        (double)hardware->intra_node.latency_ns,
        (double)hardware->inter_node.latency_ns,
        (double)hardware->intra_node.bytes_per_s,
        (double)hardware->inter_node.bytes_per_s,
        setup->model_costs.shape.parallel.expert_deduplication,
        (double)setup->study->run.decision_ns,
    };
    static_assert(sizeof values / sizeof values[0] + 1 ==
                      sizeof ana_assumed_ranges / sizeof ana_assumed_ranges[0],
                  "a row without a value");
    return values[row - ana_assumed_ranges];
}

bool ana_assumed_range_holds(const ana_assumed_range *row, const ana_setup *setup)
{
    const model_assumption_list *inputs = &setup->study->inputs;
    const model_assumption *said = ana_inputs_find(inputs, row->path); // before any file
    const model_assumption *input = said != NULL ? said : ana_inputs_find(inputs, row->input);
    const bool has_overhead = setup->hardware.operator_ns > 0 && setup->hardware.kernel_ns > 0;
    if (input != NULL && strcmp(input->name, "overhead") == 0 && !has_overhead) return false;
    const bool decides = setup->study->balancings[0].policy.kind != BAL_POLICY_NEVER;
    if (input == NULL || (strcmp(row->path, "training.decision_ns") == 0 && !decides)) return false;
    if (input->origin.kind == MODEL_ORIGIN_ASSUMED) return true;
    return input->origin.kind == MODEL_ORIGIN_PRESET && strstr(row->path, ".bytes_per_s") != NULL;
}

const char *ana_measurement_of(const char *path)
{
    static const struct {
        const char *prefix;
        const char *command;
    } measurements[] = {
        {"hardware.efficiency", "dynmo probe --device cuda --hardware NAME -o node.json"},
        {"hardware.overhead", "a trace of a few iterations: dynmo import kineto"},
        {"hardware.memory_bytes_per_s", "dynmo probe --device cuda --hardware NAME -o node.json"},
        {"hardware.flop_per_s", "dynmo probe --device cuda --hardware NAME -o node.json"},
        {"hardware.links.intra", INTRA_COMMAND},
        {"cluster.links.intra", INTRA_COMMAND},
        {"hardware.links.inter", INTER_COMMAND},
        {"cluster.links.inter", INTER_COMMAND},
        {"cluster.price", "a quote for this number of GPUs"},
        {"training", "a short run, recorded: dynmo import kineto"},
        {"dynamism", "a recorded trace of the model's loads: dynmo import"},
        {"calibration",
         "a few iterations of the first point, and of others of its group, in its table"},
        {"cost model", "a few iterations of this shape, timed: dynmo validate --fit"},
    };
    for (size_t row = 0; row < sizeof measurements / sizeof measurements[0]; row++) {
        const size_t length = strlen(measurements[row].prefix);
        if (strncmp(path, measurements[row].prefix, length) == 0) return measurements[row].command;
    }
    return "a measurement of it, put into the study";
}
