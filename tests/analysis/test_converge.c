/// Convergence of averaging: graphs looked at edge by edge, eigenvalues against GSL's solver,
/// max-neighbor against a second implementation bit for bit, the other schemes against rounds that
/// prototypes took, potentials against their definition.
#include "analysis/converge/converge_sweep.h"

#include "tests/test.h"
#include "tests/test_memory.h"

#include <gsl/gsl_eigen.h>
#include <gsl/gsl_matrix.h>
#include <gsl/gsl_sort_vector.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPH_MAX = 36, NODES_MAX = 130, ROUNDS = 60 };

/// Whether two nodes are neighbours, from the definition of each graph.
static bool are_neighbours(const ana_graph *graph, int node, int other)
{
    const int nodes = graph->node_count;
    const int low = node < other ? node : other;
    const int high = node < other ? other : node;
    const int columns = graph->columns;
    const int along = abs(node % columns - other % columns);
    const int across = abs(node / columns - other / columns);
    switch (graph->kind) {
    case ANA_GRAPH_PATH:
    case ANA_GRAPH_DYNAMIC:
        return high - low == 1;
    case ANA_GRAPH_RING:
        return high - low == 1 || high - low == nodes - 1;
    case ANA_GRAPH_STAR:
        return low == 0;
    case ANA_GRAPH_HYPERCUBE:
        return ((node ^ other) & ((node ^ other) - 1)) == 0;
    case ANA_GRAPH_TORUS:
        return (across == 0 && (along == 1 || along == columns - 1)) ||
               (along == 0 && (across == 1 || across == graph->rows - 1));
    default:
        return true;
    }
}

/// Every colour is a matching, no edge has two, and together they are the neighbours.
static void look_at_edges(const ana_graph *graph)
{
    static bool joined[GRAPH_MAX][GRAPH_MAX];
    memset(joined, 0, sizeof joined);
    for (int colour = 0; colour < ana_graph_colour_count(graph); colour++) {
        for (int node = 0; node < graph->node_count; node++) {
            const int other = ana_graph_partner(graph, colour, node);
            if (other < 0) continue;
            assert_int_not_equal(other, node);
            assert_int_equal(ana_graph_partner(graph, colour, other), node);
            assert_false(joined[node][other]);
            joined[node][other] = true;
        }
    }
    ana_graph_links links = {0};
    assert_ok(ana_graph_link(graph, memory, &links, NULL));
    for (int node = 0; node < graph->node_count; node++) {
        int link = links.first[node];
        for (int other = 0; other < graph->node_count; other++) {
            const bool wanted = other != node && are_neighbours(graph, node, other);
            assert_int_equal(joined[node][other], wanted);
            if (wanted) assert_int_equal(links.neighbour[link++], other);
        }
        assert_int_equal(link, links.first[node + 1]);
    }
}

static void look_at_eigenvalues(const ana_graph *graph)
{
    const size_t nodes = (size_t)graph->node_count;
    gsl_matrix *laplacian = gsl_matrix_calloc(nodes, nodes);
    gsl_vector *values = gsl_vector_alloc(nodes);
    gsl_eigen_symm_workspace *workspace = gsl_eigen_symm_alloc(nodes);
    for (size_t node = 0; node < nodes; node++) {
        for (size_t other = 0; other < nodes; other++) {
            if (other == node || !are_neighbours(graph, (int)node, (int)other)) continue;
            *gsl_matrix_ptr(laplacian, node, node) += 1;
            gsl_matrix_set(laplacian, node, other, -1);
        }
    }
    assert_int_equal(gsl_eigen_symm(laplacian, values, workspace), 0);
    gsl_sort_vector(values);

    const ana_graph_spectrum spectrum = ana_graph_eigenvalues(graph);

    assert_close(spectrum.smallest, gsl_vector_get(values, 1), 1e-9);
    assert_close(spectrum.largest, gsl_vector_get(values, nodes - 1), 1e-9);
    gsl_eigen_symm_free(workspace);
    gsl_vector_free(values);
    gsl_matrix_free(laplacian);
}

TEST(graphs_are_their_definitions)
{
    for (int kind = 0; kind < ANA_GRAPH_COUNT; kind++) {
        for (int nodes = 2; nodes <= GRAPH_MAX; nodes++) {
            ana_graph graph = {0};
            if (ana_graph_make((ana_graph_kind)kind, nodes, &graph, NULL) != STATUS_OK) continue;
            look_at_edges(&graph);
            look_at_eigenvalues(&graph);
        }
    }
}

TEST(what_means_nothing_is_refused)
{
    static const struct {
        const ana_scheme *scheme;
        ana_graph_kind graph;
        int nodes;
        status code;
        const char *message;
    } refused[] = {
        {NULL, ANA_GRAPH_TORUS, 7, STATUS_INVALID,
         "torus: 7 nodes make no rows and columns; it needs a product of two"},
        {NULL, ANA_GRAPH_HYPERCUBE, 12, STATUS_INVALID, "hypercube: 12 nodes are no power of two"},
        {NULL, ANA_GRAPH_RING, 2, STATUS_INVALID, "ring: 2 nodes; it needs 3"},
        {NULL, ANA_GRAPH_PATH, 1, STATUS_INVALID, "1 nodes are outside [2, 262144]"},
        {&ana_scheme_max_neighbor, ANA_GRAPH_COMPLETE, 8192, STATUS_UNSUPPORTED,
         "complete of 8192 nodes: 67100672 links exceed 33554432 that are kept one by one"},
        {&ana_scheme_scan, ANA_GRAPH_RING, 9, STATUS_INVALID,
         "scan sums along a chain; graph ring has none: use path"},
        {&ana_scheme_second_order, ANA_GRAPH_DYNAMIC, 9, STATUS_INVALID,
         "second-order and chebyshev take their weights from the spectrum of one graph; dynamic is "
         "another one in every round"},
    };
    for (size_t index = 0; index < sizeof refused / sizeof refused[0]; index++) {
        ana_graph graph = {.node_count = -7};
        ana_scheme_run run = {0};
        status code = ana_graph_make(refused[index].graph, refused[index].nodes, &graph, &why);
        if (code != STATUS_OK) assert_int_equal(graph.node_count, -7);
        if (code == STATUS_OK) {
            code = ana_scheme_open(refused[index].scheme, &graph, memory, &run, &why);
        }
        assert_int_equal(code, refused[index].code);
        assert_string_equal(why.message, refused[index].message);
        assert_null(run.load);
    }
}

/// Max-neighbor once more, over a matrix of neighbours.
typedef struct plain_game {
    int node_count;
    bool joined[NODES_MAX][NODES_MAX];
    bool sends[NODES_MAX];
    uint64_t lot[NODES_MAX];
    int proposed_to[NODES_MAX]; // -1: to nobody
    double load[NODES_MAX];
} plain_game;

/// By the gap; then lighter before heavier; then farther out.
static bool is_farther(const plain_game *game, int node, int a, int b)
{
    const double here = game->load[node];
    const double x = game->load[a];
    const double y = game->load[b];
    if (fabs(x - here) != fabs(y - here)) return fabs(x - here) > fabs(y - here);
    if ((x < here) != (y < here)) return x < here;
    return x < here ? x < y : x > y;
}

static void choose(plain_game *game, int node)
{
    int choice[NODES_MAX];
    int count = 0;
    for (int other = 0; other < game->node_count; other++) {
        if (!game->joined[node][other] || game->sends[other]) continue;
        if (count > 0 && is_farther(game, node, choice[0], other)) continue;
        if (count > 0 && is_farther(game, node, other, choice[0])) count = 0;
        choice[count++] = other;
    }
    game->proposed_to[node] = count == 0 ? -1 : choice[ana_coins_pick(game->lot[node], count)];
}

static int accept(const plain_game *game, int receiver)
{
    int accepted = -1;
    for (int node = 0; node < game->node_count; node++) {
        if (!game->sends[node] || game->proposed_to[node] != receiver) continue;
        if (accepted >= 0 && is_farther(game, receiver, accepted, node)) continue;
        if (accepted < 0 || is_farther(game, receiver, node, accepted) ||
            game->lot[node] < game->lot[accepted]) {
            accepted = node;
        }
    }
    return accepted;
}

static void play_plainly(plain_game *game, const ana_coins *coins, int64_t round)
{
    double after[NODES_MAX];
    for (int node = 0; node < game->node_count; node++) {
        game->sends[node] = (ana_coins_word(coins, round, node / 64) >> node % 64 & 1) != 0;
        game->lot[node] = ana_coins_lot(coins, round, node);
    }
    for (int node = 0; node < game->node_count; node++) {
        if (game->sends[node]) choose(game, node);
    }
    memcpy(after, game->load, sizeof after);
    for (int node = 0; node < game->node_count; node++) {
        const int other = game->sends[node] ? -1 : accept(game, node);
        if (other < 0) continue;
        after[node] = after[other] = (game->load[node] + game->load[other]) * 0.5;
    }
    memcpy(game->load, after, sizeof after);
}

static void compare_games(const ana_graph *graph, ana_initial initial, uint64_t seed)
{
    static plain_game game;
    ana_scheme_run run = {0};
    const ana_coins coins = ana_coins_make(seed, 0);
    rng random = rng_init(seed, 1);
    assert_ok(ana_scheme_open(&ana_scheme_max_neighbor, graph, memory, &run, NULL));
    memset(&game, 0, sizeof game);
    game.node_count = graph->node_count;
    for (int node = 0; node < graph->node_count; node++) {
        for (int other = 0; other < graph->node_count; other++) {
            game.joined[node][other] = node != other && are_neighbours(graph, node, other);
        }
    }
    ana_loads_fill(initial, graph->node_count, &random, game.load);
    ana_scheme_begin(&run, game.load, &coins);
    for (int round = 0; round < ROUNDS; round++) {
        play_plainly(&game, &coins, round);
        ana_scheme_play(&run);

        if (memcmp(run.load, game.load, (size_t)graph->node_count * sizeof(double)) != 0) {
            fail_msg("%s of %d from %s, seed %d: round %d differs", ana_graph_names[graph->kind],
                     graph->node_count, ana_initial_names[initial], (int)seed, round);
        }
    }
}

TEST(max_neighbor_is_played_as_defined)
{
    static const int sizes[] = {2, 3, 4, 5, 8, 9, 33, 64, 66, 128, 130};
    for (int kind = 0; kind < ANA_GRAPH_DYNAMIC; kind++) {
        for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
            ana_graph graph;
            if (ana_graph_make((ana_graph_kind)kind, sizes[size], &graph, NULL) != STATUS_OK) {
                continue;
            }
            for (uint64_t seed = 1; seed <= 4 * ANA_INITIAL_COUNT; seed++) {
                compare_games(&graph, (ana_initial)(seed % ANA_INITIAL_COUNT), seed);
            }
        }
    }
}

/// The dynamic graph is the path through the nodes in order of load, of whatever round: it stays in
/// that order, so nothing else need be played.
TEST(loads_on_the_dynamic_path_stay_in_order)
{
    ana_graph graph = {0};
    ana_scheme_run run = {0};
    double load[64];
    rng random = rng_init(3, 1);
    const ana_coins coins = ana_coins_make(3, 0);
    assert_ok(ana_graph_make(ANA_GRAPH_DYNAMIC, 64, &graph, NULL));
    assert_ok(ana_scheme_open(&ana_scheme_max_neighbor, &graph, memory, &run, NULL));
    ana_loads_fill(ANA_INITIAL_RANDOM, 64, &random, load);
    ana_scheme_begin(&run, load, &coins);
    for (int round = 0; round < 500; round++) {
        ana_scheme_play(&run);
        for (int node = 1; node < 64; node++) {
            assert_true(run.load[node - 1] <= run.load[node]);
        }
    }
}

TEST(the_potential_is_the_sum_over_all_pairs)
{
    rng random = rng_init(1, 1);
    for (int nodes = 1; nodes <= 70; nodes++) {
        double load[70];
        double scratch[70];
        double sum = 0;
        double most = 0;
        for (int node = 0; node < nodes; node++) {
            load[node] = rng_unit(&random) - 0.5;
            if (nodes % 3 == 0) load[node] = node; // ascending
            if (nodes % 3 == 1) load[node] = -0.25 * node;
            for (int other = 0; other < node; other++) {
                sum += fabs(load[node] - load[other]);
                most = fmax(most, fabs(load[node] - load[other]));
            }
        }

        assert_close(ana_loads_potential(load, nodes, scratch), sum, 1e-13);
        assert_true(ana_loads_spread(load, nodes) == most);
    }
}

/// Rounds measured with a prototype in another language until phi <= 1, from a point load; odd-even
/// from a step.
TEST(schemes_take_the_rounds_of_the_prototypes)
{
    const ana_scheme *const odd_even = &ana_scheme_odd_even;
    const ana_scheme *const first = &ana_scheme_first_order;
    const ana_scheme *const second = &ana_scheme_second_order;
    const ana_scheme *const chebyshev = &ana_scheme_chebyshev;
    const ana_scheme *const exchange = &ana_scheme_dimension_exchange;
    const ana_scheme *const scan = &ana_scheme_scan;
    const struct {
        ana_graph_kind graph;
        const ana_scheme *scheme;
        int nodes;
        int rounds;
    } measured[] = {
        {ANA_GRAPH_PATH, first, 16, 275},      {ANA_GRAPH_PATH, first, 64, 6727},
        {ANA_GRAPH_PATH, second, 16, 38},      {ANA_GRAPH_PATH, second, 128, 494},
        {ANA_GRAPH_PATH, chebyshev, 16, 31},   {ANA_GRAPH_PATH, chebyshev, 128, 464},
        {ANA_GRAPH_PATH, exchange, 16, 275},   {ANA_GRAPH_PATH, exchange, 64, 6727},
        {ANA_GRAPH_PATH, odd_even, 32, 1299},  {ANA_GRAPH_PATH, odd_even, 128, 30019},
        {ANA_GRAPH_HYPERCUBE, first, 256, 46}, {ANA_GRAPH_HYPERCUBE, exchange, 1024, 10},
        {ANA_GRAPH_COMPLETE, first, 256, 1},   {ANA_GRAPH_TORUS, first, 256, 298},
        {ANA_GRAPH_PATH, scan, 2, 2},          {ANA_GRAPH_PATH, scan, 5, 6},
        {ANA_GRAPH_PATH, scan, 64, 12},        {ANA_GRAPH_PATH, scan, 1000, 20},
    };
    for (size_t index = 0; index < sizeof measured / sizeof measured[0]; index++) {
        ana_graph graph = {0};
        ana_scheme_run run = {0};
        ana_instance result = {0};
        const ana_instance_question question = {
            .initial = measured[index].scheme == odd_even ? ANA_INITIAL_STEP : ANA_INITIAL_POINT,
            .gamma = measured[index].scheme == scan ? 1e-6 : 1};
        assert_ok(ana_graph_make(measured[index].graph, measured[index].nodes, &graph, NULL));
        assert_ok(ana_scheme_open(measured[index].scheme, &graph, memory, &run, NULL));
        assert_ok(ana_instance_play(&run, &question, 0, &result, NULL));
        assert_int_equal(result.round_count, measured[index].rounds);
    }
}

/// Sum over nodes of the square of load minus 1, the mean.
static double squares_of(const ana_scheme_run *run)
{
    double squares = 0;
    for (int node = 0; node < run->graph->node_count; node++) {
        squares += (run->load[node] - 1) * (run->load[node] - 1);
    }
    return squares;
}

/// Odd-even on the complete graph: pairs of the k-th heaviest with the k-th lightest halve the sum
/// of squares in every round.
TEST(the_fold_halves_the_squares_in_every_round)
{
    for (int nodes = 2; nodes <= 500; nodes = nodes * 3 / 2 + 1) {
        ana_graph graph = {0};
        ana_scheme_run run = {0};
        double load[500];
        const ana_coins coins = {0};
        rng random = rng_init((uint64_t)nodes, 1);
        assert_ok(ana_graph_make(ANA_GRAPH_COMPLETE, nodes, &graph, NULL));
        assert_ok(ana_scheme_open(&ana_scheme_odd_even, &graph, memory, &run, NULL));
        ana_loads_fill(ANA_INITIAL_RANDOM, nodes, &random, load);
        ana_scheme_begin(&run, load, &coins);
        double squares = squares_of(&run);
        for (int round = 0; round < 10; round++) {
            ana_scheme_play(&run);
            assert_true(squares_of(&run) <= 0.5 * squares + 1e-20);
            squares = squares_of(&run);
        }
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
