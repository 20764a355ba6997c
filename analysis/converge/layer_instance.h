/// A balancing question small enough to print: layers, where they start, what ranks may hold.
/// Counterexamples and the families that grow from them are made of these.
#pragma once

#include "balance/partition/balancer.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/// Arrays are borrowed; whoever fills the struct says for how long.
typedef struct ana_layer_instance {
    int layer_count;
    int stage_count;
    const int64_t *weight;    // [layer_count] time of a layer, in any unit
    const int64_t *bytes;     // [layer_count] or NULL: memory plays no part
    const int64_t *cap_bytes; // [stage_count] or NULL: no caps
    const int *first_layer;   // [stage_count + 1] where the layers start; stages may be empty
} ana_layer_instance;

/// Where a balancer that owns freely (diffusion-published, -coded) leaves an instance. Arrays are
/// from the arena of the call.
typedef struct ana_settled {
    int64_t start_max; // largest load of the start
    int64_t load_max;
    int64_t load_min;
    double phi;          // ana_phi of the loads
    const int64_t *load; // [stage_count]
    const int *owner;    // [layer_count]
    const bal_transfer *transfers;
    int transfer_count;
    int iteration_count;
} ana_settled;

/// Sum over unordered pairs of ranks of the difference of their loads: the potential of the
/// DynMo paper's Lemma 2. Exact below 2^53.
///
/// @param load [count], sorted by the call
double ana_phi(int64_t *load, int count);

/// The question as the balancers take it. Borrows what the instance borrows.
bal_problem ana_instance_problem(const ana_layer_instance *instance);

/// Runs a balancer that owns freely from the start of the instance.
///
/// @return as bal_balance
status ana_instance_settle(const bal_balancer *balancer, const ana_layer_instance *instance,
                           arena *memory, ana_settled *settled, error_message *err);

/// Whether Algorithm 3 would move nothing more: one more run from where it ended.
///
/// @return as bal_balance
status ana_instance_is_settled(const ana_layer_instance *instance, const ana_settled *settled,
                               arena *memory, bool *is_settled, error_message *err);

/// @return STATUS_NO_MEMORY
void ana_instance_copy(const ana_layer_instance *instance, arena *memory, ana_layer_instance *copy);

/// "[3 3 | 1 1 1 | 1 1 1]", with caps "[1:2 2:0 | 1:2] (weight:bytes), caps 3 3"; runs of equal
/// layers are shortened to "1 x 64" where the whole would not fit a line.
void ana_instance_append(const ana_layer_instance *instance, text_buffer *out);

/// An object with stages, weights, first_layer, and bytes and cap_bytes where there are any.
void ana_instance_write(const ana_layer_instance *instance, json_writer *writer);
