/// The claim about loads that pairs of nodes exchange: the model that the DynMo paper's proof is
/// about (divisible load, coins, pairs that average; derivation in the folder's pages).
#include "analysis/converge/converge_graph.h"
#include "analysis/converge/converge_sweep.h"
#include "analysis/converge/verdict/verdict.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 5 };

/// A small graph: edge_mask has a bit per pair, in the order (0,1), (0,2), (1,2), (0,3), ...
typedef struct small_graph {
    int node_count;
    int edge_mask;
    bool beside[NODES_MAX][NODES_MAX];
} small_graph;

static small_graph graph_of(int node_count, int edge_mask)
{
    small_graph graph = {.node_count = node_count, .edge_mask = edge_mask};
    int edge = 0;
    for (int high = 1; high < node_count; high++) {
        for (int low = 0; low < high; low++, edge++) {
            graph.beside[low][high] = graph.beside[high][low] = (edge_mask >> edge & 1) != 0;
        }
    }
    return graph;
}

static bool is_connected(const small_graph *graph)
{
    int reached = 1;
    for (int step = 0; step < graph->node_count; step++) {
        for (int node = 0; node < graph->node_count; node++) {
            for (int other = 0; other < graph->node_count; other++) {
                if (reached >> node & 1 && graph->beside[node][other]) reached |= 1 << other;
            }
        }
    }
    return reached == (1 << graph->node_count) - 1;
}

/// The neighbour of a node with the other role, or with any of givers, that differs most; the first
/// of equal ones; -1 if there is none.
static int farthest(const small_graph *graph, const int64_t *load, int node, int among)
{
    int best = -1;
    for (int other = 0; other < graph->node_count; other++) {
        if (!graph->beside[node][other] || !(among >> other & 1)) continue;
        const int64_t gap = llabs(load[other] - load[node]);
        if (best < 0 || gap > llabs(load[best] - load[node])) best = other;
    }
    return best;
}

/// One round with given roles, a bit per sender. @param doubled twice the loads after it.
/// @return sum of the gaps of the pairs that averaged
static int64_t play(const small_graph *graph, const int64_t *load, int senders, int64_t *doubled)
{
    const int receivers = ~senders;
    int proposal[NODES_MAX];
    int64_t gaps = 0;
    for (int node = 0; node < graph->node_count; node++) {
        doubled[node] = 2 * load[node];
        proposal[node] = senders >> node & 1 ? farthest(graph, load, node, receivers) : -1;
    }
    for (int node = 0; node < graph->node_count; node++) {
        int proposers = 0;
        for (int other = 0; other < graph->node_count; other++) {
            if (proposal[other] == node) proposers |= 1 << other;
        }
        const int partner = farthest(graph, load, node, proposers);
        if (partner < 0) continue;
        gaps += llabs(load[partner] - load[node]);
        doubled[node] = doubled[partner] = load[node] + load[partner];
    }
    return gaps;
}

/// All roles of one graph and load: the drop of every round against its gaps, their mean, how often
/// they are large. Loads without a difference are passed over.
static void test_roles(ana_trying *at, const small_graph *graph, const int64_t *load)
{
    const int nodes = graph->node_count;
    const int roles = 1 << nodes;
    int64_t sorted[NODES_MAX];
    memcpy(sorted, load, (size_t)nodes * sizeof *load);
    const double phi = ana_phi(sorted, nodes);
    const int64_t spread = sorted[nodes - 1] - sorted[0];
    const unsigned edges = (unsigned)graph->edge_mask;
    ana_verdict_case *cases = at->verdict->cases;
    int64_t all_gaps = 0;
    int large = 0;
    if (spread == 0) return;
    at->tried = &cases[0];
    for (int senders = 0; senders < roles; senders++) {
        int64_t doubled[NODES_MAX];
        const int64_t gaps = play(graph, load, senders, doubled);
        all_gaps += gaps;
        large += 16 * gaps >= spread ? 1 : 0;
        cases[0].examined++;
        if (2 * phi - ana_phi(doubled, nodes) >= 2 * (double)gaps) continue;
        ana_case_violate(at, NULL, "%d nodes, edges %#x, senders %#x", nodes, edges,
                         (unsigned)senders);
    }
    at->tried = &cases[1];
    ana_case_measure(at->tried, (double)spread * roles / (16.0 * (double)all_gaps));
    if (16 * all_gaps < spread * roles) {
        ana_case_violate(at, NULL, "%d nodes, edges %#x", nodes, edges);
    }
    at->tried = &cases[2];
    ana_case_measure(at->tried, roles / (2.0 * large));
    if (2 * large < roles) ana_case_violate(at, NULL, "%d nodes, edges %#x", nodes, edges);
}

/// Every load of 0 to load_max on the nodes.
static void test_loads(ana_trying *at, const small_graph *graph, int load_max)
{
    const int nodes = graph->node_count;
    const ana_search_box box = {.stage_min = 1,
                                .stage_max = 1,
                                .layer_min = nodes,
                                .layer_max = nodes,
                                .weight_max = load_max};
    ana_search search;
    ana_search_begin(&search, &box);
    while (ana_search_next(&search)) {
        test_roles(at, graph, search.weight);
    }
}

static void search_graphs(ana_trying *at)
{
    static const int load_max[NODES_MAX + 1] = {0, 0, 4, 4, 4, 2};
    for (int nodes = 2; nodes <= NODES_MAX; nodes++) {
        const int masks = 1 << nodes * (nodes - 1) / 2;
        for (int mask = 0; mask < masks; mask++) {
            const small_graph graph = graph_of(nodes, mask);
            if (is_connected(&graph)) test_loads(at, &graph, load_max[nodes]);
        }
    }
}

/// Runs of one graph from a point load to phi <= 1.
static status run_graph(ana_trying *at, ana_graph_kind kind, int nodes)
{
    const ana_instance_question question = {
        .initial = ANA_INITIAL_POINT,
        .gamma = 1,
        .seed = at->options.seed,
        .interrupt = at->options.interrupt,
    };
    ana_graph graph;
    ana_scheme_run scheme;
    TRY(ana_trying_next(at));
    TRY(ana_graph_make(kind, nodes, &graph, at->err));
    TRY(ana_scheme_open(&ana_scheme_max_neighbor, &graph, at->scratch, &scheme, at->err));
    for (int run = 0; run < at->options.run_count; run++) {
        ana_instance played;
        TRY(ana_instance_play(&scheme, &question, run, &played, at->err));
        const ana_bound_question asked = {.node_count = nodes,
                                          .potential = played.potential_first,
                                          .stop = ANA_STOP_PHI,
                                          .gamma = 1,
                                          .delta = 0.01};
        const int64_t bound = ana_bound_repaired(&asked);
        ana_case_measure(at->tried, (double)played.round_count / (double)bound);
        if (played.round_count <= bound) continue;
        ana_case_violate(at, NULL, "%s of %d nodes: %lld rounds, bound %lld", ana_graph_names[kind],
                         nodes, (long long)played.round_count, (long long)bound);
    }
    return STATUS_OK;
}

static status search_theorem(ana_trying *at)
{
    static const ana_graph_kind kinds[] = {ANA_GRAPH_PATH, ANA_GRAPH_RING, ANA_GRAPH_STAR,
                                           ANA_GRAPH_COMPLETE, ANA_GRAPH_DYNAMIC};
    search_graphs(at);
    at->tried = &at->verdict->cases[3];
    for (int nodes = 8; nodes <= 32; nodes *= 2) {
        for (int kind = 0; kind < 5; kind++) {
            TRY(run_graph(at, kinds[kind], nodes));
        }
    }
    return STATUS_OK;
}

static const char every_role[] = "every connected graph on 2 to 5 nodes, every load of 0 to 4 (5 "
                                 "nodes: 0 to 2), every role of every node";

const ana_claim ana_pair_claim = {
    .name = "theorem-r",
    .claim = "Divisible load: if receivers accept the proposal that differs most, phi <= "
             "gamma after 4 N^2 ln(phi0 / (gamma delta)) rounds with chance 1 - delta, on any "
             "graphs that are connected.",
    .source = "Theorem R, derived here; it repairs the proof of DynMo's Lemma 2, whose "
              "printed steps give N^3 log N",
    .reason = "In expectation the gaps that are averaged are a 16th of max - min or more, and "
              "phi falls by at least them; phi is at most N^2/4 of max - min.",
    .cases = {{"phi falls by the gaps averaged", .searched = every_role},
              {"expected gaps >= (max - min)/16", "that 16th / expected gaps",
               .searched = every_role},
              {"gaps >= that in half of the rounds", "1/2 / chance", .searched = every_role},
              {"rounds within the bound, delta 0.01", "rounds / bound",
               .searched = "max-neighbor, from a point load, 8 to 32 nodes"}},
    .also = search_theorem,
};
