#include "analysis/converge/converge_three_term.h"

#include <math.h>
#include <string.h>

status ana_three_term_check(const ana_graph *graph, const ana_scheme_options *options,
                            error_message *err)
{
    (void)options;
    if (graph->kind != ANA_GRAPH_DYNAMIC) return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "second-order and chebyshev take their weights from the spectrum of one graph; "
        "dynamic is another one in every round");
}

status ana_three_term_prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    const size_t nodes = (size_t)run->graph->node_count;
    ana_three_term *state = arena_array(memory, 1, sizeof *state);
    const double alpha = ana_first_order_alpha(run->graph, 0);
    const double contraction = ana_first_order_contraction(run->graph, alpha);
    state->contraction = ana_diffusion_parameter(contraction);
    state->previous = arena_array(memory, nodes, sizeof *state->previous);
    state->next = arena_array(memory, nodes, sizeof *state->next);
    run->state = state;
    return ana_diffusion_make(run->graph, alpha, memory, &state->diffusion, err);
}

void ana_three_term_begin(ana_scheme_run *run)
{
    ana_three_term *state = run->state;
    state->weight = 0;
    memcpy(state->previous, run->load, (size_t)run->graph->node_count * sizeof *run->load);
}

void ana_three_term_play(ana_scheme_run *run, double weight)
{
    ana_three_term *state = run->state;
    ana_diffusion_step(&state->diffusion, run->load, state->next);
    for (int node = 0; node < run->graph->node_count; node++) {
        state->next[node] = weight * state->next[node] + (1 - weight) * state->previous[node];
    }
    double *const spare = state->previous;
    state->previous = run->load;
    run->load = state->next;
    state->next = spare;
}
