/// Graphs as edge colourings: every graph of small sizes, looked at edge by edge; eigenvalues
/// against those of GSL's solver.
#include "analysis/converge/converge_graph.h"

#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <gsl/gsl_eigen.h>
#include <gsl/gsl_matrix.h>
#include <gsl/gsl_sort_vector.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 36 };

static void each_graph(void (*look)(const ana_graph *graph))
{
    for (int kind = 0; kind < ANA_GRAPH_COUNT; kind++) {
        for (int nodes = 2; nodes <= NODES_MAX; nodes++) {
            ana_graph graph = {0};
            if (ana_graph_make((ana_graph_kind)kind, nodes, &graph, NULL) == STATUS_OK)
                look(&graph);
        }
    }
}

/// Whether node and other are neighbours, from the definition of each graph.
static bool are_neighbours(const ana_graph *graph, int node, int other)
{
    const int nodes = graph->node_count;
    const int low = node < other ? node : other;
    const int high = node < other ? other : node;
    const int columns = graph->columns;
    const int rows = graph->rows;
    const bool same_row = node / columns == other / columns;
    const bool same_column = node % columns == other % columns;
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
    case ANA_GRAPH_COMPLETE:
        return true;
    case ANA_GRAPH_HYPERCUBE:
        return ((node ^ other) & ((node ^ other) - 1)) == 0;
    case ANA_GRAPH_DUMBBELL:
        return low / (nodes / 2) == high / (nodes / 2) ||
               (low == nodes / 2 - 1 && high == nodes / 2);
    case ANA_GRAPH_TORUS:
        return (same_row && (along == 1 || along == columns - 1)) ||
               (same_column && (across == 1 || across == rows - 1));
    case ANA_GRAPH_COUNT:
        break;
    }
    fail();
    return false;
}

/// Every colour is a matching, no edge has two, and together they are the neighbours.
static void look_at_edges(const ana_graph *graph)
{
    static bool joined[NODES_MAX][NODES_MAX];
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
    arena *memory = arena_create(1 << 16);
    ana_graph_links links = {0};
    assert_ok(ana_graph_link(graph, memory, &links, NULL));
    for (int node = 0; node < graph->node_count; node++) {
        int link = links.first[node];
        for (int other = 0; other < graph->node_count; other++) {
            assert_int_equal(joined[node][other],
                             other != node && are_neighbours(graph, node, other));
            if (!joined[node][other]) continue;
            assert_true(link < links.first[node + 1]);
            assert_int_equal(links.neighbour[link++], other);
        }
        assert_int_equal(link, links.first[node + 1]);
    }
    arena_destroy(memory);
}

static void colours_and_links_are_the_edges_of_the_definition(void **state)
{
    (void)state;
    each_graph(look_at_edges);
}

static void look_at_eigenvalues(const ana_graph *graph)
{
    const size_t nodes = (size_t)graph->node_count;
    gsl_matrix *laplacian = gsl_matrix_calloc(nodes, nodes);
    gsl_vector *values = gsl_vector_alloc(nodes);
    gsl_eigen_symm_workspace *workspace = gsl_eigen_symm_alloc(nodes);
    for (size_t node = 0; node < nodes; node++) {
        for (int colour = 0; colour < ana_graph_colour_count(graph); colour++) {
            const int other = ana_graph_partner(graph, colour, (int)node);
            if (other < 0) continue;
            *gsl_matrix_ptr(laplacian, node, node) += 1;
            gsl_matrix_set(laplacian, node, (size_t)other, -1);
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

static void eigenvalues_are_those_of_the_laplacian(void **state)
{
    (void)state;
    each_graph(look_at_eigenvalues);
}

static void sizes_that_a_graph_does_not_have_are_invalid(void **state)
{
    (void)state;
    static const struct {
        ana_graph_kind kind;
        int nodes;
        const char *message;
    } refused[] = {
        {ANA_GRAPH_TORUS, 7, "torus: 7 nodes make no rows and columns; it needs a product of two"},
        {ANA_GRAPH_HYPERCUBE, 12, "hypercube: 12 nodes are no power of two"},
        {ANA_GRAPH_RING, 2, "ring: 2 nodes; it needs 3"},
        {ANA_GRAPH_DUMBBELL, 9, "dumbbell: 9 nodes; it needs two halves of at least 2"},
        {ANA_GRAPH_PATH, 1, "1 nodes are outside [2, 65536]"},
    };
    ana_graph graph = {.node_count = -7};
    error_message err = {0};
    for (int index = 0; index < 5; index++) {
        assert_int_equal(ana_graph_make(refused[index].kind, refused[index].nodes, &graph, &err),
                         STATUS_INVALID);
        assert_string_equal(err.message, refused[index].message);
    }
    assert_int_equal(graph.node_count, -7);
}

static void links_beyond_memory_are_unsupported(void **state)
{
    arena *memory = *state;
    ana_graph graph = {0};
    ana_graph_links links = {0};
    error_message err = {0};
    assert_ok(ana_graph_make(ANA_GRAPH_COMPLETE, 8192, &graph, &err));

    assert_int_equal(ana_graph_link(&graph, memory, &links, &err), STATUS_UNSUPPORTED);

    assert_string_equal(err.message, "complete of 8192 nodes: 67100672 links exceed 33554432 that "
                                     "are kept one by one");
    assert_null(links.first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colours_and_links_are_the_edges_of_the_definition),
        cmocka_unit_test(eigenvalues_are_those_of_the_laplacian),
        cmocka_unit_test(sizes_that_a_graph_does_not_have_are_invalid),
        cmocka_unit_test(links_beyond_memory_are_unsupported),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
