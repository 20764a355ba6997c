/// The balancer `diffusion` with neighbour messages only, against gathering all costs at one rank
/// that decides and broadcasts: time of a decision and messages, by the number of ranks.
///
/// By itself it measures the transport `local`; under `mpirun -n P` the transport `mpi` with P
/// ranks.
#include "balance/partition/balancer.h"
#include "base/arena.h"
#include "base/rng.h"
#include "exec/transport/distributed_diffusion.h"
#include "tests/bench/bench.h"
#include "tests/exec/world_group.h"

#include <stdlib.h>

enum { LAYERS_PER_RANK = 4, ROUNDS = 20, RANKS_MAX = 512 };

/// What a rank says of its decisions.
typedef struct rank_figures {
    int64_t took_ns; // median
    int64_t message_count;
    int64_t message_bytes;
    int64_t sweep_count;
} rank_figures;

typedef struct trial {
    const char *transport;
    int rank_count;
    int round_count;
    rank_figures distributed; // out, at the leader: largest over the ranks, messages summed
    rank_figures central;
} trial;

/// A rank's own copy of the problem, of which it looks at its own layers only.
typedef struct rank_state {
    exec_group group;
    int sequence;
    int ranks[RANKS_MAX];
    int layer_count;
    int64_t *weight; // [layer_count]
    int64_t *zero;   // [layer_count]
    arena *memory;   // of one decision
} rank_state;

static status no_memory(error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "out of memory");
}

static status decide_distributed(rank_state *own, rank_figures *figures, error_message *err)
{
    const exec_diffusion_rules rules = {.layer_count = own->layer_count};
    const int first = own->group.self * LAYERS_PER_RANK;
    const exec_diffusion_layers layers = {.first_layer = first,
                                          .end_layer = first + LAYERS_PER_RANK,
                                          .weight = own->weight + first,
                                          .state_bytes = own->weight + first};
    exec_diffusion_answer answer;
    TRY(exec_distributed_diffusion(&own->group, &rules, &layers, own->memory, &answer, err));
    figures->message_count = answer.message_count;
    figures->message_bytes = answer.message_bytes;
    figures->sweep_count = answer.sweep_count;
    return STATUS_OK;
}

/// What the root of the gather does.
static status balance(rank_state *own, const int64_t *weight, int *first_layer, error_message *err)
{
    const bal_problem problem = {.stage_count = own->group.rank_count,
                                 .layers = {.layer_count = own->layer_count,
                                            .microbatch_count = 1,
                                            .forward_ns = weight,
                                            .backward_input_ns = own->zero,
                                            .backward_weight_ns = own->zero,
                                            .state_bytes = weight}};
    bal_answer answer;
    TRY(bal_balance(bal_balancer_find("diffusion"), &problem, own->memory, &answer, err));
    for (int stage = 0; stage <= own->group.rank_count; stage++) {
        first_layer[stage] = answer.first_layer[stage];
    }
    return STATUS_OK;
}

static status decide_centrally(rank_state *own, rank_figures *figures, error_message *err)
{
    const int ranks = own->group.rank_count;
    int64_t sizes[RANKS_MAX];
    int first_layer[RANKS_MAX + 1];
    void *all = NULL;
    const int64_t own_bytes = LAYERS_PER_RANK * (int64_t)sizeof *own->weight;
    TRY(exec_group_gather(&own->group, own->weight + own->group.self * LAYERS_PER_RANK, own_bytes,
                          own->memory, sizes, &all, err));
    if (own->group.self == 0) TRY(balance(own, all, first_layer, err));
    TRY(exec_group_broadcast(&own->group, first_layer, (int64_t)sizeof first_layer[0] * (ranks + 1),
                             err));
    // A size and the costs to the root, the cuts from the parent in the tree.
    figures->message_count = own->group.self > 0 ? 3 : 0;
    figures->message_bytes = own_bytes + 8 + (int64_t)sizeof first_layer[0] * (ranks + 1);
    return STATUS_OK;
}

static int compare(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/// Decides again and again; of each decision counts what the last rank took.
static status repeat(rank_state *own, const trial *at,
                     status (*decide)(rank_state *, rank_figures *, error_message *),
                     rank_figures *result, error_message *err)
{
    const exec_endpoint *endpoint = own->group.endpoint;
    int64_t took[ROUNDS];
    rank_figures figures = {0};
    for (int round = 0; round < at->round_count; round++) {
        int64_t sizes[RANKS_MAX];
        void *all = NULL;
        TRY(exec_group_barrier(&own->group, err));
        const int64_t begin_ns = endpoint->transport->now_ns(endpoint);
        TRY(decide(own, &figures, err));
        figures.took_ns = endpoint->transport->now_ns(endpoint) - begin_ns;
        TRY(exec_group_gather(&own->group, &figures, sizeof figures, own->memory, sizes, &all,
                              err));
        const rank_figures *ranks = all;
        *result = (rank_figures){0};
        for (int rank = 0; own->group.self == 0 && rank < own->group.rank_count; rank++) {
            if (ranks[rank].took_ns > result->took_ns) result->took_ns = ranks[rank].took_ns;
            result->message_count += ranks[rank].message_count;
            result->message_bytes += ranks[rank].message_bytes;
            result->sweep_count = ranks[rank].sweep_count;
        }
        took[round] = result->took_ns;
        arena_reset(own->memory);
    }
    qsort(took, (size_t)at->round_count, sizeof took[0], compare);
    result->took_ns = took[at->round_count / 2];
    return STATUS_OK;
}

static status decide_all(trial *at, rank_state *own, error_message *err)
{
    rng random = rng_init(1, 1);
    for (int layer = 0; layer < own->layer_count; layer++) {
        own->weight[layer] = rng_between(&random, 500000, 1500000);
    }
    rank_figures distributed;
    rank_figures central;
    TRY(repeat(own, at, decide_distributed, &distributed, err));
    TRY(repeat(own, at, decide_centrally, &central, err));
    if (own->group.self > 0) return STATUS_OK;
    at->distributed = distributed;
    at->central = central;
    return STATUS_OK;
}

static status run_rank(exec_endpoint *endpoint, void *context, error_message *err)
{
    trial *at = context;
    rank_state *own = memory_array(1, sizeof *own);
    const size_t layers = (size_t)at->rank_count * LAYERS_PER_RANK;
    int64_t *values = memory_array(2 * layers, sizeof *values);
    arena *memory = arena_create(1 << 16);
    status code = STATUS_OK;
    if (own == NULL || values == NULL || memory == NULL) {
        code = no_memory(err);
    } else {
        *own = (rank_state){.layer_count = (int)layers,
                            .weight = values,
                            .zero = values + layers,
                            .memory = memory};
        own->group = world_group(endpoint, own->ranks, &own->sequence);
        code = decide_all(at, own, err);
    }
    arena_destroy(memory);
    free(values);
    free(own);
    return code;
}

static void print(const trial *at, const char *how, const rank_figures *figures,
                  int64_t busiest_rank_messages)
{
    bench_print("diffusion_decision_us", (double)figures->took_ns / 1e3, "us",
                "%s P=%d L=%d %s, median of %d, %d sweeps", at->transport, at->rank_count,
                at->rank_count * LAYERS_PER_RANK, how, at->round_count, (int)figures->sweep_count);
    bench_print("diffusion_messages", (double)figures->message_count, "messages", "%s P=%d L=%d %s",
                at->transport, at->rank_count, at->rank_count * LAYERS_PER_RANK, how);
    bench_print("diffusion_messages_busiest_rank", (double)busiest_rank_messages, "messages",
                "%s P=%d L=%d %s, sent and received", at->transport, at->rank_count,
                at->rank_count * LAYERS_PER_RANK, how);
    bench_print("diffusion_message_bytes", (double)figures->message_bytes, "bytes",
                "%s P=%d L=%d %s", at->transport, at->rank_count, at->rank_count * LAYERS_PER_RANK,
                how);
}

static void measure(const char *transport, int rank_count, bool smoke)
{
    error_message err = {0};
    trial at = {
        .transport = transport, .rank_count = rank_count, .round_count = smoke ? 1 : ROUNDS};
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = rank_count;
    bench_require(exec_transport_run(transport, &options, run_rank, &at, &err), &err);
    if (!exec_transport_is_leader(transport)) return;
    // Two waves for the sums, two for the layers, one to settle and two per sweep; a rank in the
    // middle takes one message of each and passes one on.
    print(&at, "neighbours", &at.distributed, 2 * (5 + 2 * at.distributed.sweep_count));
    int children = 0;
    while (1 << children < rank_count) {
        children++;
    }
    print(&at, "gathered", &at.central, 2 * (rank_count - 1) + children);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    const char *launched = getenv("OMPI_COMM_WORLD_SIZE");
    if (launched != NULL) {
        measure("mpi", atoi(launched), smoke);
        return 0;
    }
    for (int ranks = 8; ranks <= (smoke ? 16 : RANKS_MAX); ranks *= 2) {
        measure("local", ranks, smoke);
    }
    return 0;
}
