/// What a round of max-neighbor averaging costs per node, with the looks at the potential that an
/// instance takes, and how it grows with the nodes; and of a linear scheme.
#include "analysis/converge/converge_instance.h"
#include "tests/bench/bench.h"

#include <string.h>

/// One instance; played again and again.
typedef struct bench_instance {
    ana_player player;
    ana_instance_question question;
    ana_instance result;
} bench_instance;

static void play(void *context)
{
    bench_instance *at = context;
    error_message err = {0};
    bench_require(ana_instance_play(&at->player, &at->question, 0, &at->result, &err), &err);
}

/// @param gamma large enough for an instance of some milliseconds
static void measure(bool smoke, ana_graph_kind kind, const ana_scheme *scheme, int nodes,
                    ana_initial initial, double gamma)
{
    bench_instance at = {.question = {.initial = initial, .gamma = gamma, .seed = 1}};
    ana_graph graph;
    error_message err = {0};
    arena *memory = arena_create(1 << 20);
    bench_require(STATUS_OK, &err);
    bench_require(ana_graph_make(kind, nodes, &graph, &err), &err);
    bench_require(ana_player_open(scheme, &graph, memory, &at.player, &err), &err);

    const bench_time time = bench_measure(smoke, play, &at);
    const double rounds = at.result.round_count > 0 ? (double)at.result.round_count : 1;
    bench_print("converge_ns_per_round", time.median_ns / rounds, "ns", "%s %s N=%d", scheme->name,
                ana_graph_names[kind], nodes);
    bench_print("converge_ns_per_node_and_round", time.median_ns / rounds / nodes, "ns",
                "%s %s N=%d", scheme->name, ana_graph_names[kind], nodes);
    arena_destroy(memory);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    const ana_scheme *averaging = &ana_scheme_max_neighbor;
    for (int nodes = 64; nodes <= (smoke ? 64 : 1024); nodes *= 4) {
        const double gamma = 0.49 * nodes * nodes;
        measure(smoke, ANA_GRAPH_PATH, averaging, nodes, ANA_INITIAL_STEP, gamma);
        measure(smoke, ANA_GRAPH_RING, averaging, nodes, ANA_INITIAL_STEP, gamma);
        measure(smoke, ANA_GRAPH_TORUS, averaging, nodes, ANA_INITIAL_STEP, gamma);
        measure(smoke, ANA_GRAPH_HYPERCUBE, averaging, nodes, ANA_INITIAL_POINT, 1);
        measure(smoke, ANA_GRAPH_STAR, averaging, nodes, ANA_INITIAL_RANDOM, 1);
        measure(smoke, ANA_GRAPH_COMPLETE, averaging, nodes, ANA_INITIAL_RANDOM, 1);
        measure(smoke, ANA_GRAPH_PATH, &ana_scheme_first_order, nodes, ANA_INITIAL_STEP, gamma);
    }
    return 0;
}
