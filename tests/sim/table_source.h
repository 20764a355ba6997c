/// A source of costs that a test writes down: one table of times per iteration. Layers have no
/// bytes unless the test gives them some.
#pragma once

#include "balance/ports.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { TABLE_LAYERS = 64, TABLE_COLUMNS = 8, TABLE_ITERATIONS = 32 };

typedef struct table_source {
    bal_cost_source source; // filled by table_source_init; points back to the table
    int layer_count;
    int column_count;
    int64_t forward[TABLE_ITERATIONS][TABLE_LAYERS * TABLE_COLUMNS]; // [layer_count][column_count]
    int64_t input[TABLE_ITERATIONS][TABLE_LAYERS * TABLE_COLUMNS];
    int64_t weight[TABLE_ITERATIONS][TABLE_LAYERS * TABLE_COLUMNS];
    int64_t state_bytes[TABLE_LAYERS];
    int64_t activation_bytes[TABLE_ITERATIONS][TABLE_LAYERS];
    int64_t reduction_ns[TABLE_LAYERS];
    int asked[TABLE_ITERATIONS]; // how often each iteration was asked for
    int last;                    // iteration asked for last; -1: none
    bool has_full_backwards;     // B and W in one
    bool is_quiet;               // announces no change, whatever the numbers
} table_source;

static inline bool table_differs(const table_source *table, int one, int other)
{
    return memcmp(table->forward[one], table->forward[other], sizeof table->forward[one]) != 0 ||
           memcmp(table->input[one], table->input[other], sizeof table->input[one]) != 0 ||
           memcmp(table->weight[one], table->weight[other], sizeof table->weight[one]) != 0;
}

static inline status table_costs_at(void *context, int iteration, bal_layer_costs *costs,
                                    bool *changed, error_message *err)
{
    table_source *table = context;
    assert(iteration >= 0 && iteration < TABLE_ITERATIONS);
    *changed =
        table->last < 0 || (!table->is_quiet && table_differs(table, table->last, iteration));
    table->last = iteration;
    table->asked[iteration]++;
    *costs = (bal_layer_costs){.layer_count = table->layer_count,
                               .microbatch_count = table->column_count,
                               .has_split = !table->has_full_backwards,
                               .forward_ns = table->forward[iteration],
                               .backward_input_ns = table->input[iteration],
                               .backward_weight_ns = table->weight[iteration],
                               .state_bytes = table->state_bytes,
                               .activation_bytes = table->activation_bytes[iteration],
                               .reduction_ns = table->reduction_ns};
    return STATUS_OK;
}

/// Layers that cost nothing; the test fills in the rest. The table must stay where it is.
static inline void table_source_init(table_source *table, int layer_count, int column_count)
{
    assert(layer_count <= TABLE_LAYERS && column_count <= TABLE_COLUMNS);
    *table = (table_source){.layer_count = layer_count, .column_count = column_count, .last = -1};
    table->source = (bal_cost_source){.context = table,
                                      .layer_count = layer_count,
                                      .iteration_count = TABLE_ITERATIONS,
                                      .announces_changes = true,
                                      .costs_at = table_costs_at};
}

/// Sets F, B and W of every layer and column in iterations [first, end).
static inline void table_fill(table_source *table, int first, int end, int64_t forward_ns,
                              int64_t input_ns, int64_t weight_ns)
{
    for (int iteration = first; iteration < end; iteration++) {
        for (int cell = 0; cell < table->layer_count * table->column_count; cell++) {
            table->forward[iteration][cell] = forward_ns;
            table->input[iteration][cell] = input_ns;
            table->weight[iteration][cell] = weight_ns;
        }
    }
}
