#include "exec/run/run_migration.h"

#include <math.h>

/// A rank in the middle of a migration.
typedef struct mover {
    const exec_run_ranks *ranks;
    const exec_run_migration *migration;
    exec_device *device;
    exec_migrated *migrated;
    int64_t free_ns;
    error_message *err;
} mover;

status exec_parcel_pack(exec_parcel *parcel, exec_device *device, int layer, error_message *err)
{
    const int64_t byte_count = device->table->packed_bytes(device, layer);
    void *room = NULL;
    exec_parcel_room(parcel, byte_count, &room);
    return device->table->pack(device, layer, room, err);
}

/// The key of "I have room": parcels of the same kind have stage 0.
static uint64_t ready_key(int leg)
{
    return exec_message_key(EXEC_MESSAGE_MIGRATE, leg, 1, 0);
}

/// Lasts as long as the transfer, where time is real.
static status pace(const mover *at, int64_t transfer_ns)
{
    exec_endpoint *endpoint = at->ranks->endpoint;
    if (!at->migration->paces || transfer_ns == 0) return STATUS_OK;
    const double stretched = (double)transfer_ns * ((double)at->migration->time_scale_ppb / 1e9);
    const int64_t now_ns = endpoint->transport->now_ns(endpoint);
    return endpoint->transport->sleep_until(endpoint, now_ns + (int64_t)round(stretched), at->err);
}

/// Fills the parcel of a leg: from the device, or with what has come here on its way to a third
/// rank.
static status fill_leg(const mover *at, int layer, int64_t end_ns, exec_parcel *parcel)
{
    exec_parcel *passing = &at->migrated->layers[layer];
    exec_layer_head head = {.end_ns = end_ns};
    if (passing->bytes == NULL) {
        head.byte_count = at->device->table->packed_bytes(at->device, layer);
        TRY(exec_parcel_put(parcel, &head, (int64_t)sizeof head));
        return exec_parcel_pack(parcel, at->device, layer, at->err);
    }
    passing->taken_bytes = 0;
    head.byte_count =
        ((const exec_layer_head *)exec_parcel_take(passing, (int64_t)sizeof head))->byte_count;
    TRY(exec_parcel_put(parcel, &head, (int64_t)sizeof head));
    TRY(exec_parcel_put(parcel, exec_parcel_take(passing, head.byte_count), head.byte_count));
    exec_parcel_free(passing);
    return STATUS_OK;
}

static status send_leg(mover *at, int leg)
{
    const exec_migration_leg *way = &at->migration->legs[leg];
    const int to = exec_run_world_rank(at->ranks, at->ranks->replica, way->to);
    exec_endpoint *endpoint = at->ranks->endpoint;
    exec_message ready;
    exec_parcel parcel = {0};
    TRY(endpoint->transport->receive(endpoint, to, ready_key(leg), &ready, NULL, 0, at->err));
    const int64_t begin_ns = ready.value[0] > at->free_ns ? ready.value[0] : at->free_ns;
    at->free_ns = begin_ns + way->transfer_ns;
    status sent = pace(at, way->transfer_ns);
    if (sent == STATUS_OK) sent = fill_leg(at, way->layer, at->free_ns, &parcel);
    if (sent == STATUS_OK) {
        sent = exec_parcel_send(endpoint, to, EXEC_MESSAGE_MIGRATE, leg, &parcel, at->err);
    }
    exec_parcel_free(&parcel);
    return sent;
}

static status receive_leg(mover *at, int leg)
{
    const exec_migration_leg *way = &at->migration->legs[leg];
    const int from = exec_run_world_rank(at->ranks, at->ranks->replica, way->from);
    exec_endpoint *endpoint = at->ranks->endpoint;
    exec_parcel *parcel = &at->migrated->layers[way->layer];
    const exec_message ready = {.key = ready_key(leg), .value = {at->free_ns}};
    TRY(endpoint->transport->send(endpoint, from, &ready, NULL, at->err));
    TRY(exec_parcel_receive(endpoint, from, EXEC_MESSAGE_MIGRATE, leg, parcel, at->err));
    const exec_layer_head *head = exec_parcel_take(parcel, (int64_t)sizeof *head);
    at->free_ns = head->end_ns;
    at->migrated->bytes += head->byte_count;
    return STATUS_OK;
}

status exec_run_migrate(const exec_run_ranks *ranks, const exec_run_migration *migration,
                        exec_device *device, int layer_count, arena *memory,
                        exec_migrated *migrated, error_message *err)
{
    mover at = {
        .ranks = ranks,
        .migration = migration,
        .device = device,
        .migrated = migrated,
        .free_ns = migration->release_ns[ranks->machine_rank],
        .err = err,
    };
    migrated->layers = arena_array(memory, (size_t)layer_count, sizeof *migrated->layers);
    migrated->layer_count = layer_count;
    for (int leg = 0; leg < migration->leg_count; leg++) {
        const exec_migration_leg *way = &migration->legs[leg];
        if (way->from == ranks->machine_rank) {
            TRY(send_leg(&at, leg));
        } else if (way->to == ranks->machine_rank) {
            TRY(receive_leg(&at, leg));
        } else {
            continue;
        }
        migrated->free_ns = at.free_ns;
    }
    return STATUS_OK;
}

status exec_migrated_unpack(exec_migrated *migrated, exec_device *device, error_message *err)
{
    for (int layer = 0; layer < migrated->layer_count; layer++) {
        exec_parcel *parcel = &migrated->layers[layer];
        if (parcel->bytes == NULL) continue;
        parcel->taken_bytes = 0;
        const exec_layer_head *head = exec_parcel_take(parcel, (int64_t)sizeof *head);
        TRY(device->table->unpack(device, layer, exec_parcel_take(parcel, head->byte_count),
                                  head->byte_count, err));
        exec_parcel_free(parcel);
    }
    return STATUS_OK;
}

void exec_migrated_free(exec_migrated *migrated)
{
    for (int layer = 0; migrated->layers != NULL && layer < migrated->layer_count; layer++) {
        exec_parcel_free(&migrated->layers[layer]);
    }
    *migrated = (exec_migrated){0};
}
