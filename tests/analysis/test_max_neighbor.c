/// Max-neighbor against a second implementation, written from its definition over a matrix of
/// neighbours: every player, every variant, loads that tie and loads that do not, bit for bit.
#include "analysis/converge/converge_loads.h"
#include "analysis/converge/converge_scheme.h"

#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 150, ROUNDS = 60 };

typedef struct plain_game {
    int node_count;
    ana_variant variant;
    bool joined[NODES_MAX][NODES_MAX];
    bool sends[NODES_MAX];
    uint64_t lot[NODES_MAX];
    int proposed_to[NODES_MAX]; // -1: to nobody
    double load[NODES_MAX];
} plain_game;

static void fill_game(const ana_graph *graph, ana_variant variant, plain_game *game)
{
    memset(game, 0, sizeof *game);
    game->node_count = graph->node_count;
    game->variant = variant;
    for (int node = 0; node < graph->node_count; node++) {
        for (int colour = 0; colour < ana_graph_colour_count(graph); colour++) {
            const int other = ana_graph_partner(graph, colour, node);
            if (other >= 0) game->joined[node][other] = true;
        }
    }
}

/// How far `other` is from node: the gap; then lighter before heavier; then farther out.
static bool is_farther(const plain_game *game, int node, int a, int b)
{
    const double here = game->load[node];
    const double x = game->load[a];
    const double y = game->load[b];
    if (fabs(x - here) > fabs(y - here)) return true;
    if (fabs(x - here) < fabs(y - here)) return false;
    if (x < here && y >= here) return true;
    if (x >= here && y < here) return false;
    return x < here ? x < y : x > y;
}

static void choose(plain_game *game, int node)
{
    int choice[NODES_MAX];
    int count = 0;
    for (int other = 0; other < game->node_count; other++) {
        if (!game->joined[node][other]) continue;
        if (game->variant != ANA_VARIANT_P && game->sends[other]) continue;
        if (count > 0 && is_farther(game, node, choice[0], other)) continue;
        if (count > 0 && is_farther(game, node, other, choice[0])) count = 0;
        choice[count++] = other;
    }
    game->proposed_to[node] = -1;
    if (count == 0) return;
    const int target = choice[ana_coins_pick(game->lot[node], count)];
    if (!game->sends[target]) game->proposed_to[node] = target;
}

static int accept(const plain_game *game, int receiver)
{
    int accepted = -1;
    for (int node = 0; node < game->node_count; node++) {
        if (!game->sends[node] || game->proposed_to[node] != receiver) continue;
        if (accepted < 0) {
            accepted = node;
            continue;
        }
        const bool by_gap = game->variant != ANA_VARIANT_QR;
        if (by_gap && is_farther(game, receiver, accepted, node)) continue;
        const bool wins = by_gap && is_farther(game, receiver, node, accepted);
        if (wins || game->lot[node] < game->lot[accepted]) accepted = node;
    }
    return accepted;
}

/// @return sum of the gaps
static double play_plainly(plain_game *game, const ana_coins *coins, int64_t round)
{
    double after[NODES_MAX];
    double gaps = 0;
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
        gaps += fabs(game->load[node] - game->load[other]);
        after[node] = after[other] = (game->load[node] + game->load[other]) * 0.5;
    }
    memcpy(game->load, after, sizeof after);
    return gaps;
}

static void compare_games(ana_graph_kind kind, int nodes, ana_variant variant, ana_initial initial,
                          uint64_t seed)
{
    static plain_game game;
    ana_graph graph = {0};
    ana_scheme_run run = {0};
    const ana_coins coins = ana_coins_make(seed, 0);
    const ana_scheme_options options = {.variant = variant};
    rng random = rng_init(seed, 1);
    arena *memory = arena_create(1 << 20);
    assert_ok(ana_graph_make(kind, nodes, &graph, NULL));
    assert_ok(ana_scheme_open(&ana_scheme_max_neighbor, &graph, &options, memory, &run, NULL));
    fill_game(&graph, variant, &game);
    ana_loads_fill(initial, nodes, &random, game.load);
    ana_scheme_begin(&run, game.load, &coins, 0);

    for (int round = 0; round < ROUNDS; round++) {
        const double wanted = play_plainly(&game, &coins, round);
        const double found = ana_scheme_play(&run);

        const size_t bytes = (size_t)nodes * sizeof(double);
        if (memcmp(run.load, game.load, bytes) != 0) {
            fail_msg("%s of %d, variant %s, from %s, seed %d: round %d differs",
                     ana_graph_names[kind], nodes, ana_variant_names[variant],
                     ana_initial_names[initial], (int)seed, round);
        }
        assert_close(found, wanted, 1e-12);
    }
    arena_destroy(memory);
}

static void compare_sizes(ana_graph_kind kind, const int *sizes, int size_count)
{
    for (int size = 0; size < size_count; size++) {
        for (int variant = 0; variant < ANA_VARIANT_COUNT; variant++) {
            for (int initial = 0; initial < ANA_INITIAL_COUNT; initial++) {
                for (uint64_t seed = 1; seed <= 4; seed++) {
                    if (kind == ANA_GRAPH_COMPLETE && variant == ANA_VARIANT_QR && seed > 1) break;
                    compare_games(kind, sizes[size], (ana_variant)variant, (ana_initial)initial,
                                  seed);
                }
            }
        }
    }
}

static void paths_and_rings_play_as_defined(void **state)
{
    (void)state;
    const int sizes[] = {3, 4, 5, 7, 8, 9, 31, 64, 65, 130};

    compare_sizes(ANA_GRAPH_PATH, sizes, 10);
    compare_sizes(ANA_GRAPH_RING, sizes, 10);
    compare_games(ANA_GRAPH_PATH, 2, ANA_VARIANT_Q, ANA_INITIAL_POINT, 1);
}

static void star_and_complete_play_as_defined(void **state)
{
    (void)state;
    const int sizes[] = {2, 3, 4, 5, 7, 8, 33, 66, 150};

    compare_sizes(ANA_GRAPH_STAR, sizes, 9);
    compare_sizes(ANA_GRAPH_COMPLETE, sizes, 8);
    compare_games(ANA_GRAPH_COMPLETE, 150, ANA_VARIANT_Q, ANA_INITIAL_RANDOM, 9);
}

static void other_graphs_play_as_defined(void **state)
{
    (void)state;
    const int tori[] = {4, 6, 9, 10, 15, 16, 35, 36, 64, 143, 150};
    const int cubes[] = {2, 4, 8, 16, 32, 64, 128};
    const int dumbbells[] = {4, 6, 10, 32};

    compare_sizes(ANA_GRAPH_TORUS, tori, 11);
    compare_sizes(ANA_GRAPH_HYPERCUBE, cubes, 7);
    compare_sizes(ANA_GRAPH_DUMBBELL, dumbbells, 4);
}

/// The dynamic graph is the path through the nodes in order of load, of whatever round: it stays in
/// that order, so nothing else need be played.
static void loads_on_the_dynamic_path_stay_in_order(void **state)
{
    arena *memory = *state;
    ana_graph graph = {0};
    ana_scheme_run run = {0};
    double load[NODES_MAX];
    rng random = rng_init(3, 1);
    const ana_coins coins = ana_coins_make(3, 0);
    const ana_scheme_options options = {0};
    assert_ok(ana_graph_make(ANA_GRAPH_DYNAMIC, 64, &graph, NULL));
    assert_ok(ana_scheme_open(&ana_scheme_max_neighbor, &graph, &options, memory, &run, NULL));
    ana_loads_fill(ANA_INITIAL_RANDOM, 64, &random, load);
    ana_scheme_begin(&run, load, &coins, 0);

    for (int round = 0; round < 500; round++) {
        ana_scheme_play(&run);
        const double *now = run.load;
        for (int node = 1; node < 64; node++) {
            assert_true(now[node - 1] <= now[node]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_and_rings_play_as_defined),
        cmocka_unit_test(star_and_complete_play_as_defined),
        cmocka_unit_test(other_graphs_play_as_defined),
        cmocka_unit_test(loads_on_the_dynamic_path_stay_in_order),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
