#include "cli/schedule/schedule_costs.h"

#include "base/json.h"

#include <inttypes.h>

enum { TIME_COUNT = 3 };
static const char *const time_keys[TIME_COUNT] = {"forward_ns", "backward_input_ns",
                                                  "backward_weight_ns"};

static bool varies_by_microbatch(json_value times)
{
    return json_is_array(json_element(times, 0));
}

/// Reads the times of one rank: a number for all columns, or one per microbatch.
static status read_rank(json_value times, const cli_schedule_shape *shape, int column_count,
                        int64_t *rank_ns, error_message *err)
{
    if (json_is_array(times)) {
        return json_int64_array(times, shape->microbatch_count, 0, JSON_INTEGER_MAX, rank_ns, err);
    }
    TRY(json_int64(times, 0, JSON_INTEGER_MAX, &rank_ns[0], err));
    for (int column = 1; column < column_count; column++) {
        rank_ns[column] = rank_ns[0];
    }
    return STATUS_OK;
}

/// @param rank_ns [rank_count][column_count] out
static status read_times(json_value times, const cli_schedule_shape *shape, int column_count,
                         int64_t *rank_ns, error_message *err)
{
    if (!json_is_array(times)) {
        return json_error(times, STATUS_FORMAT, err, "needs an array of %d ranks",
                          shape->rank_count);
    }
    if (json_count(times) != shape->rank_count) {
        return json_error(times, STATUS_FORMAT, err,
                          "has %d entries, needs one for each of %d ranks", json_count(times),
                          shape->rank_count);
    }
    json_value rank = json_element(times, 0);
    for (int index = 0; index < shape->rank_count; index++, rank = json_next(rank)) {
        TRY(read_rank(rank, shape, column_count, rank_ns + (int64_t)index * column_count, err));
    }
    return STATUS_OK;
}

static int64_t *carve(arena *memory, int64_t count)
{
    return arena_array(memory, (size_t)count, sizeof(int64_t));
}

/// How the stages of a placement take their times from those of the ranks.
typedef struct chunk_share {
    int divisor;      // of a rank's time
    int column_count; // of a stage
} chunk_share;

/// Both pipelines of a bidirectional placement have whole stages, and half of the microbatches.
static chunk_share share_of(const cli_schedule_shape *shape, int column_count)
{
    if (shape->placement != BAL_PLACEMENT_BIDIRECTIONAL) {
        return (chunk_share){shape->chunk_count, column_count};
    }
    return (chunk_share){1, column_count == 1 ? 1 : column_count / 2};
}

/// The row of the ranks' times from which a stage takes its own, at its first column. The copies of
/// a stage have the times of the rank that holds the first.
static const int64_t *row_of_stage(const cli_schedule_shape *shape, int column_count, int stage,
                                   const int64_t *rank_ns)
{
    if (shape->placement == BAL_PLACEMENT_BIDIRECTIONAL) {
        const int copy = stage / shape->rank_count;
        const int first_column = column_count == 1 ? 0 : copy * (column_count / 2);
        return rank_ns + (int64_t)(stage % shape->rank_count) * column_count + first_column;
    }
    const int rank =
        bal_rank_of_stage(shape->placement, shape->rank_count, shape->chunk_count, stage, NULL);
    return rank_ns + (int64_t)rank * column_count;
}

/// Gives every chunk its share of its rank's times.
///
/// @param rank_ns  [rank_count][column_count]
/// @param stage_ns [rank_count * chunk_count][column_count of the share] out
static status share_among_chunks(const cli_schedule_shape *shape, int column_count,
                                 const char *path, const char *key, const int64_t *rank_ns,
                                 int64_t *stage_ns, error_message *err)
{
    const chunk_share share = share_of(shape, column_count);
    for (int stage = 0; stage < shape->rank_count * shape->chunk_count; stage++) {
        const int64_t *row = row_of_stage(shape, column_count, stage, rank_ns);
        for (int column = 0; column < share.column_count; column++) {
            const int64_t ns = row[column];
            if (ns % share.divisor != 0) {
                return error_set(err, STATUS_INVALID,
                                 "%s: %s of rank %d: %" PRId64 " ns does not divide into %d chunks",
                                 path, key, (int)((row - rank_ns) / column_count), ns,
                                 share.divisor);
            }
            *stage_ns++ = ns / share.divisor;
        }
    }
    return STATUS_OK;
}

static bool is_equal(const int64_t *rank_ns, int64_t count)
{
    for (int64_t index = 1; index < count; index++) {
        if (rank_ns[index] != rank_ns[0]) return false;
    }
    return true;
}

/// Fills what all stages have in common.
static void fill_rows(const cli_schedule_shape *shape, int64_t send_ns, const int64_t *memory_fbw,
                      arena *memory, bal_stage_costs *stages)
{
    enum { ROW_COUNT = 4 };
    const int stage_count = shape->rank_count * shape->chunk_count;
    const int64_t values[ROW_COUNT] = {send_ns, memory_fbw[0], memory_fbw[1], memory_fbw[2]};
    int64_t *rows = carve(memory, (int64_t)stage_count * ROW_COUNT);
    for (int64_t cell = 0; cell < (int64_t)stage_count * ROW_COUNT; cell++) {
        rows[cell] = values[cell / stage_count];
    }
    stages->send_forward_ns = rows;
    stages->send_backward_ns = rows;
    stages->message_delay_ns = NULL;
    stages->memory_forward = rows + stage_count;
    stages->memory_backward_input = rows + (int64_t)stage_count * 2;
    stages->memory_backward_weight = rows + (int64_t)stage_count * 3;
}

/// Fills the times of the stages from those of the ranks.
///
/// @param rank_ns [TIME_COUNT][rank_count][column_count]
static status fill_times(const cli_schedule_shape *shape, const char *path, int column_count,
                         const int64_t *rank_ns, arena *memory, cli_schedule_costs *costs,
                         error_message *err)
{
    const int64_t cells = (int64_t)shape->rank_count * column_count;
    int64_t *stage_ns = carve(memory, cells * shape->chunk_count * TIME_COUNT);
    costs->is_equal = true;
    for (int time = 0; time < TIME_COUNT; time++) {
        TRY(share_among_chunks(shape, column_count, path, time_keys[time], rank_ns + time * cells,
                               stage_ns + time * cells * shape->chunk_count, err));
        costs->is_equal = costs->is_equal && is_equal(rank_ns + time * cells, cells);
    }
    costs->stages.stage_count = shape->rank_count * shape->chunk_count;
    costs->stages.microbatch_count = share_of(shape, column_count).column_count;
    costs->stages.forward_ns = stage_ns;
    costs->stages.backward_input_ns = stage_ns + cells * shape->chunk_count;
    costs->stages.backward_weight_ns = stage_ns + cells * shape->chunk_count * 2;
    costs->equal = (bal_equal_stages){.rank_count = shape->rank_count,
                                      .microbatch_count = shape->microbatch_count,
                                      .chunk_count = shape->chunk_count,
                                      .forward_ns = rank_ns[0],
                                      .backward_input_ns = rank_ns[cells],
                                      .backward_weight_ns = rank_ns[cells * 2],
                                      .send_ns = costs->stages.send_forward_ns[0]};
    return STATUS_OK;
}

static status read_limit(json_value limit, int rank_count, arena *memory, int64_t **memory_limit,
                         error_message *err)
{
    *memory_limit = NULL;
    if (json_is_missing(limit)) return STATUS_OK;
    int64_t activations = 0;
    TRY(json_int64(limit, 0, JSON_INTEGER_MAX, &activations, err));
    *memory_limit = carve(memory, rank_count);
    for (int rank = 0; rank < rank_count; rank++) {
        (*memory_limit)[rank] = activations;
    }
    return STATUS_OK;
}

static status read_document(json_value root, const char *path, const cli_schedule_shape *shape,
                            arena *memory, cli_schedule_costs *costs, error_message *err)
{
    static const char *const keys[] = {"forward_ns", "backward_input_ns", "backward_weight_ns",
                                       "send_ns",    "memory_fbw",        "memory_limit"};
    TRY(json_check_keys(root, keys, sizeof keys / sizeof keys[0], err));
    int column_count = 1;
    for (int time = 0; time < TIME_COUNT; time++) {
        if (varies_by_microbatch(json_member(root, time_keys[time]))) {
            column_count = shape->microbatch_count;
        }
    }
    const int64_t cells = (int64_t)shape->rank_count * column_count;
    int64_t *rank_ns = carve(memory, cells * TIME_COUNT);
    for (int time = 0; time < TIME_COUNT; time++) {
        TRY(read_times(json_member(root, time_keys[time]), shape, column_count,
                       rank_ns + time * cells, err));
    }
    int64_t send_ns = 0;
    int64_t memory_fbw[] = {1, 0, -1};
    const json_value send = json_member(root, "send_ns");
    const json_value changes = json_member(root, "memory_fbw");
    if (!json_is_missing(send)) TRY(json_int64(send, 0, JSON_INTEGER_MAX, &send_ns, err));
    if (!json_is_missing(changes)) {
        TRY(json_int64_array(changes, 3, -JSON_INTEGER_MAX, JSON_INTEGER_MAX, memory_fbw, err));
    }
    fill_rows(shape, send_ns, memory_fbw, memory, &costs->stages);
    TRY(fill_times(shape, path, column_count, rank_ns, memory, costs, err));
    return read_limit(json_member(root, "memory_limit"), shape->rank_count, memory,
                      &costs->memory_limit, err);
}

static status default_costs(const cli_schedule_shape *shape, arena *memory,
                            cli_schedule_costs *costs, error_message *err)
{
    const int64_t memory_fbw[] = {1, 0, -1};
    const int64_t cells = (int64_t)shape->rank_count * TIME_COUNT;
    int64_t *rank_ns = carve(memory, cells);
    for (int64_t cell = 0; cell < cells; cell++) {
        rank_ns[cell] = share_of(shape, 1).divisor;
    }
    costs->memory_limit = NULL;
    fill_rows(shape, 0, memory_fbw, memory, &costs->stages);
    return fill_times(shape, "", 1, rank_ns, memory, costs, err);
}

static status read_file(const char *path, const cli_schedule_shape *shape, arena *memory,
                        cli_schedule_costs *costs, error_message *err)
{
    json_document *document = NULL;
    TRY(json_open(path, &document, err));
    return read_document(json_keep(document, memory), path, shape, memory, costs, err);
}

status cli_schedule_costs_read(const char *path, const cli_schedule_shape *shape, arena *memory,
                               cli_schedule_costs *costs, error_message *err)
{
    TRY(path == NULL ? default_costs(shape, memory, costs, err)
                     : read_file(path, shape, memory, costs, err));
    if (!shape->first_stage_whole) return STATUS_OK;
    bal_stage_costs_join_first(shape->placement, shape->rank_count, memory, &costs->stages);
    costs->is_equal = false;
    return STATUS_OK;
}
