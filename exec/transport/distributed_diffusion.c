#include "exec/transport/distributed_diffusion.h"

#include "balance/partition/balancer_diffusion.h"
#include "balance/partition/bounds.h"

#include <assert.h>
#include <inttypes.h>

/// What travels of the boundary after a layer.
typedef struct boundary {
    int64_t layer; // the boundary stands in front of this one
    int64_t weight_before;
    int64_t state_before;
    int64_t activation_before;
    int64_t transfer_ns; // of the layer in front of the boundary
} boundary;

/// What a message says beside its boundaries.
typedef struct wave_values {
    int64_t first; // a cut, or a level
    int64_t second;
} wave_values;

typedef struct wave_message {
    wave_values values;
    boundary at[]; // as many as the payload holds
} wave_message;

/// A rank's view of the chain: sums in front of the boundaries that it knows, which are those in
/// [known_begin, known_end], and some single ones; cuts of its stage and its neighbours'.
typedef struct view {
    const exec_group *group;
    const exec_diffusion_layers *own;
    int stage;
    bal_chain chain;
    int64_t *weight_before; // the arrays of chain, [layer_count + 1]
    int64_t *state_before;
    int64_t *activation_before;
    int64_t *transfer_ns; // [layer_count]
    int known_begin;
    int known_end;
    int told_right; // the first boundary that the next rank has been told of
    double *target; // [stage_count + 1]
    int *first;     // [stage_count + 1]
    int sequence;
    int wave;
    wave_message *message; // room for all boundaries
    int message_count;     // boundaries in it
    exec_diffusion_answer *answer;
} view;

static bool is_last(const view *of)
{
    return of->stage == of->chain.stage_count - 1;
}

static uint64_t key_of(const view *of)
{
    return exec_message_key(EXEC_MESSAGE_GROUP, of->sequence, of->group->channel,
                            of->wave % BAL_MICROBATCHES_MAX);
}

static void add_boundary(view *of, int layer)
{
    of->message->at[of->message_count++] = (boundary){
        .layer = layer,
        .weight_before = of->weight_before[layer],
        .state_before = of->state_before[layer],
        .activation_before = of->activation_before[layer],
        .transfer_ns = layer > 0 ? of->transfer_ns[layer - 1] : 0,
    };
}

/// Puts the boundaries of [begin, end] into the message that is sent next.
static void add_boundaries(view *of, int begin, int end)
{
    for (int layer = begin; layer <= end; layer++) {
        add_boundary(of, layer);
    }
}

/// Sends the boundaries that have been added, and values, to the next stage in the direction.
static status send_wave(view *of, int direction, wave_values values, error_message *err)
{
    const exec_group *group = of->group;
    exec_endpoint *endpoint = group->endpoint;
    of->message->values = values;
    const exec_message head = {
        .key = key_of(of),
        .payload_bytes =
            (int64_t)(sizeof *of->message + (size_t)of->message_count * sizeof of->message->at[0]),
    };
    of->message_count = 0;
    of->answer->message_count++;
    of->answer->message_bytes += head.payload_bytes;
    return endpoint->transport->send(endpoint, group->rank[of->stage + direction], &head,
                                     of->message, err);
}

/// Receives from the stage before in the direction, and learns its boundaries.
static status receive_wave(view *of, int direction, wave_values *values, error_message *err)
{
    const exec_group *group = of->group;
    exec_endpoint *endpoint = group->endpoint;
    const size_t room = (size_t)of->chain.layer_count + 2;
    exec_message head;
    TRY(endpoint->transport->receive(
        endpoint, group->rank[of->stage - direction], key_of(of), &head, of->message,
        (int64_t)(sizeof *of->message + room * sizeof of->message->at[0]), err));
    const size_t count = ((size_t)head.payload_bytes - sizeof *of->message) / sizeof(boundary);
    for (size_t index = 0; index < count; index++) {
        const boundary *at = &of->message->at[index];
        of->weight_before[at->layer] = at->weight_before;
        of->state_before[at->layer] = at->state_before;
        of->activation_before[at->layer] = at->activation_before;
        if (at->layer > 0) of->transfer_ns[at->layer - 1] = at->transfer_ns;
    }
    *values = of->message->values;
    return STATUS_OK;
}

static int64_t value_at(const int64_t *values, int index)
{
    return values != NULL ? values[index] : 0;
}

/// Sums up the own layers after the sums in front of them.
static status sum_own_layers(view *of, error_message *err)
{
    const exec_diffusion_layers *own = of->own;
    for (int layer = own->first_layer; layer < own->end_layer; layer++) {
        const int index = layer - own->first_layer;
        const int64_t state = value_at(own->state_bytes, index);
        const int64_t activation = value_at(own->activation_bytes, index);
        const int64_t transfer = value_at(own->transfer_ns, index);
        if (own->weight[index] < 0 || own->weight[index] > INT64_MAX - of->weight_before[layer] ||
            state < 0 || state > INT64_MAX - of->state_before[layer] || activation < 0 ||
            activation > INT64_MAX - of->activation_before[layer] || transfer < 0) {
            return error_set(err, STATUS_INVALID,
                             "layer %d: weight %" PRId64 ", %" PRId64 " and %" PRId64
                             " bytes, transfer %" PRId64
                             " ns: negative, or sums that do not fit 64 bits",
                             layer, own->weight[index], state, activation, transfer);
        }
        of->weight_before[layer + 1] = of->weight_before[layer] + own->weight[index];
        of->state_before[layer + 1] = of->state_before[layer] + state;
        of->activation_before[layer + 1] = of->activation_before[layer] + activation;
        of->transfer_ns[layer] = transfer;
    }
    return STATUS_OK;
}

/// Sums run from the first rank to the last, the total runs back, with the level up to which stages
/// take their share.
static status sum_up(view *of, error_message *err)
{
    const int layer_count = of->chain.layer_count;
    wave_values values = {0};
    of->wave++;
    if (of->stage > 0) TRY(receive_wave(of, 1, &values, err));
    TRY(sum_own_layers(of, err));
    for (int layer = of->own->first_layer; layer < of->own->end_layer; layer++) {
        const int64_t load = bal_layer_load_min(&of->chain, layer);
        if (load > values.first) values.first = load;
    }
    if (!is_last(of)) {
        add_boundary(of, of->own->end_layer);
        TRY(send_wave(of, 1, values, err));
    }
    of->wave++;
    if (is_last(of)) {
        bal_chain divisible = of->chain;
        divisible.transfer_ns = NULL;
        TRY(bal_chain_bound_load_sum(&divisible, err));
        values.first = bal_divisible_lower_bound(&divisible, values.first);
    } else {
        TRY(receive_wave(of, -1, &values, err));
    }
    bal_diffusion_targets(&of->chain, values.first, of->target);
    if (of->stage == 0) return STATUS_OK;
    add_boundary(of, layer_count);
    return send_wave(of, -1, values, err);
}

/// Layers that the stages in front of a cut must have.
static int least_in_front(const view *of, int cut)
{
    int least = 0;
    for (int stage = 0; stage < cut; stage++) {
        least += bal_chain_may_be_empty(&of->chain, stage) ? 0 : 1;
    }
    return least;
}

/// The rounded cut in front of a stage if it is among the boundaries that are known, else the one
/// of them that is next to it.
static int rounded_cut(const view *of, int stage)
{
    const double target = of->target[stage];
    const int begin = of->known_begin;
    const int end = of->known_end;
    const int least = least_in_front(of, stage);
    int cut = begin;
    if (end < of->chain.layer_count && target > (double)of->weight_before[end]) {
        cut = end;
    } else if (begin == 0 || target > (double)of->weight_before[begin]) {
        cut = bal_diffusion_nearest_cut(&of->chain, begin, end, target);
    }
    if (cut < least) cut = least;
    return cut < end ? cut : end;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/// Costs of layers run to the stage that the rounded flow gives them: first those that belong
/// further back, then those that belong further in front. With the latter goes the cut in front
/// of each stage, which leaves to this stage and those after what they must have.
static status spread_layers(view *of, error_message *err)
{
    wave_values values = {0};
    of->wave++;
    if (of->stage > 0) {
        TRY(receive_wave(of, 1, &values, err));
        of->known_begin = (int)values.first;
    }
    if (!is_last(of)) {
        of->told_right = rounded_cut(of, of->stage + 1);
        add_boundaries(of, of->told_right, of->known_end);
        TRY(send_wave(of, 1, (wave_values){.first = of->told_right}, err));
    }
    of->wave++;
    of->first[of->stage + 1] = of->chain.layer_count;
    if (!is_last(of)) {
        TRY(receive_wave(of, -1, &values, err));
        of->first[of->stage + 1] = (int)values.first;
        of->known_end = (int)values.second;
    }
    const int need = bal_chain_may_be_empty(&of->chain, of->stage) ? 0 : 1;
    const int begin = smaller(rounded_cut(of, of->stage), of->first[of->stage + 1] - need);
    of->first[of->stage] = of->stage > 0 ? begin : 0;
    if (of->stage == 0) return STATUS_OK;
    const int own_first = of->own->first_layer;
    const int told = begin > own_first ? begin : own_first;
    add_boundaries(of, own_first, told);
    return send_wave(of, -1, (wave_values){.first = begin, .second = told}, err);
}

/// Costs of layers that the rules have left to a later stage than the flow had run there. Then
/// every rank knows those of its stage, and whether it has the memory.
///
/// @param fits out: of all ranks
static status settle_layers(view *of, bool *fits, error_message *err)
{
    wave_values values = {.first = 1};
    of->wave++;
    if (of->stage > 0) TRY(receive_wave(of, 1, &values, err));
    if (of->first[of->stage] < of->known_begin) of->known_begin = of->first[of->stage];
    if (!bal_chain_fits(&of->chain, of->stage, of->first[of->stage], of->first[of->stage + 1])) {
        values.first = 0;
    }
    if (!is_last(of)) {
        add_boundaries(of, smaller(of->first[of->stage + 1], of->told_right), of->told_right);
        TRY(send_wave(of, 1, values, err));
    }
    of->wave++;
    *fits = true;
    if (of->chain.stage_memory_bytes == NULL) return STATUS_OK;
    if (!is_last(of)) TRY(receive_wave(of, -1, &values, err));
    if (of->stage > 0) TRY(send_wave(of, -1, values, err));
    *fits = values.first != 0;
    return STATUS_OK;
}

/// One look at every cut in turn, from the first to the last: the stage after a cut decides, with
/// what the stage in front of it offers, and answers when the wave comes back.
///
/// @param moved out: whether any cut has
static status sweep(view *of, bool *moved, error_message *err)
{
    const int stage = of->stage;
    int *first = of->first;
    wave_values values = {0};
    of->wave++;
    if (stage > 0) {
        TRY(receive_wave(of, 1, &values, err));
        first[stage - 1] = (int)values.first;
        if (bal_diffusion_shift_cut(&of->chain, first, stage - 1, 1) ||
            bal_diffusion_shift_cut(&of->chain, first, stage - 1, -1)) {
            values.second = 1;
        }
    }
    if (!is_last(of)) {
        const int cut = first[stage + 1];
        add_boundary(of, first[stage]);
        if (cut > first[stage]) add_boundaries(of, cut - 1, cut);
        TRY(send_wave(of, 1, (wave_values){.first = first[stage], .second = values.second}, err));
    }
    of->wave++;
    if (!is_last(of)) {
        TRY(receive_wave(of, -1, &values, err));
        first[stage + 1] = (int)values.first;
    }
    *moved = values.second != 0;
    if (stage == 0) return STATUS_OK;
    add_boundary(of, first[stage]);
    return send_wave(of, -1, (wave_values){.first = first[stage], .second = values.second}, err);
}

/// Caps forbid the rounded cuts: the costs of all layers run to the first rank, and the cuts back.
static status decide_centrally(view *of, arena *memory, error_message *err)
{
    const int stages = of->chain.stage_count;
    wave_values values = {0};
    of->answer->was_gathered = true;
    of->wave++;
    if (!is_last(of)) TRY(receive_wave(of, -1, &values, err));
    if (of->stage > 0) {
        add_boundaries(of, of->own->first_layer + 1, of->chain.layer_count);
        TRY(send_wave(of, -1, values, err));
    } else {
        TRY(bal_chain_bound_load_sum(&of->chain, err));
        TRY(bal_diffusion_cuts(&of->chain, memory, of->first, err));
    }
    of->wave++;
    exec_endpoint *endpoint = of->group->endpoint;
    const int64_t bytes = (int64_t)sizeof(int) * (stages + 1);
    exec_message head = {.key = key_of(of), .payload_bytes = bytes};
    if (of->stage > 0) {
        TRY(endpoint->transport->receive(endpoint, of->group->rank[of->stage - 1], head.key, NULL,
                                         of->first, bytes, err));
    }
    if (is_last(of)) return STATUS_OK;
    of->answer->message_count++;
    of->answer->message_bytes += bytes;
    return endpoint->transport->send(endpoint, of->group->rank[of->stage + 1], &head, of->first,
                                     err);
}

static status decide(view *of, arena *memory, error_message *err)
{
    bool fits = true;
    bool moved = true;
    TRY(sum_up(of, err));
    TRY(spread_layers(of, err));
    TRY(settle_layers(of, &fits, err));
    if (!fits) return decide_centrally(of, memory, err);
    const int sweep_max = bal_diffusion_sweep_max(&of->chain);
    for (int done = 0; done < sweep_max && moved; done++) {
        TRY(sweep(of, &moved, err));
        of->answer->sweep_count++;
    }
    return STATUS_OK;
}

static void create_view(const exec_group *group, const exec_diffusion_rules *rules,
                        const exec_diffusion_layers *own, arena *memory, view *of)
{
    const size_t layers = (size_t)rules->layer_count;
    const size_t stages = (size_t)group->rank_count;
    *of = (view){
        .group = group,
        .own = own,
        .stage = group->self,
        .weight_before = arena_array(memory, layers + 1, sizeof *of->weight_before),
        .state_before = arena_array(memory, layers + 1, sizeof *of->state_before),
        .activation_before = arena_array(memory, layers + 1, sizeof *of->activation_before),
        .transfer_ns = arena_array(memory, layers + 1, sizeof *of->transfer_ns),
        .known_begin = own->first_layer,
        .known_end = own->end_layer,
        .target = arena_array(memory, stages + 1, sizeof *of->target),
        .first = arena_array(memory, stages + 1, sizeof *of->first),
        .sequence = (*group->sequence)++,
        .message = arena_array(memory, 1, sizeof(wave_message) + (layers + 2) * sizeof(boundary)),
    };
    of->chain = (bal_chain){
        .layer_count = rules->layer_count,
        .stage_count = group->rank_count,
        .chunk_count = 1,
        .allow_empty_stages = rules->allow_empty_stages,
        .embedding = rules->embedding,
        .head = rules->head,
        .weight_before = of->weight_before,
        .state_before = of->state_before,
        .activation_before = of->activation_before,
        .transfer_ns = rules->by_transfer ? of->transfer_ns : NULL,
        .stage_memory_bytes = rules->stage_memory_bytes,
        .stage_inflight = rules->stage_inflight,
        .stage_time_factor_ppb = rules->stage_time_factor_ppb,
        .stage_fixed_ns = rules->stage_fixed_ns,
    };
}

status exec_distributed_diffusion(const exec_group *group, const exec_diffusion_rules *rules,
                                  const exec_diffusion_layers *own, arena *memory,
                                  exec_diffusion_answer *answer, error_message *err)
{
    view of;
    exec_diffusion_answer made = {0};
    assert(0 <= own->first_layer && own->first_layer <= own->end_layer &&
           own->end_layer <= rules->layer_count);
    create_view(group, rules, own, memory, &of);
    of.answer = &made;
    TRY(decide(&of, memory, err));
    made.first_layer = of.first[of.stage];
    made.end_layer = of.first[of.stage + 1];
    *answer = made;
    return STATUS_OK;
}
