/// Items over processes, with faults on demand. Prints every result in order, and how it went.
/// Usage: mpi_spread ITEMS THREADS [FAULT RANK FILE]
///   dies: the rank kills itself in its 5th item; stops: it stops there, as if it hung; fails: item
///   50 fails wherever it is done. The rank makes the file first; the others wait for that in their
///   5th item, so that it comes to it.
#include "analysis/spread/spread.h"
#include "analysis/spread/spread_carrier.h"
#include "base/loadable.h"
#include "base/rng.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct setting {
    const char *fault;
    int faulty_rank;
    const char *file;
    int rank;
    atomic_int begun_count;
} setting;

static atomic_bool is_interrupted;

static void note(int signal_number)
{
    (void)signal_number;
    atomic_store(&is_interrupted, true);
}

static void be_faulty(const setting *given)
{
    if (strcmp(given->fault, "fails") == 0) return;
    FILE *file = fopen(given->file, "w");
    if (file != NULL) fclose(file);
    raise(strcmp(given->fault, "dies") == 0 ? SIGKILL : SIGSTOP);
}

static void wait_for_fault(const setting *given)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    while (strcmp(given->fault, "fails") != 0 && access(given->file, F_OK) != 0 &&
           !atomic_load(&is_interrupted)) {
        nanosleep(&nap, NULL);
    }
}

/// About a quarter of a millisecond of drawing.
static status run(void *context, void *worker, int64_t item, text_buffer *result,
                  error_message *err)
{
    setting *given = context;
    rng random = rng_init((uint64_t)item, 0);
    uint64_t sum = 0;
    (void)worker;
    if (given->faulty_rank >= 0 && atomic_fetch_add(&given->begun_count, 1) == 4) {
        if (given->rank == given->faulty_rank) be_faulty(given);
        wait_for_fault(given);
    }
    for (int draw = 0; draw < 100000; draw++) {
        sum += rng_next(&random);
    }
    if (strcmp(given->fault, "fails") == 0 && item == 50) {
        return error_set(err, STATUS_IO, "item 50 fails");
    }
    text_format(result, "%016" PRIx64, sum);
    return STATUS_OK;
}

static status put(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    (void)context;
    (void)err;
    printf("%" PRId64 " %s\n", item, result->bytes);
    return STATUS_OK;
}

static status join(const char *program, ana_carrier **carrier, error_message *err)
{
    const loadable *module = NULL;
    if (getenv("OMPI_COMM_WORLD_SIZE") == NULL) return STATUS_OK;
    TRY(loadable_open_beside(program, "spread", &module, err));
    return ((const ana_carrier_module *)module->table)->open(carrier, err);
}

/// Twice, the second time with what the leader tells, so that calls follow on each other.
static status spread(ana_spread *over, setting *given, int64_t count, error_message *err)
{
    ana_spread_report report = {0};
    text_buffer shared = {0};
    ana_items items = {.count = count, .context = given, .run = run, .put = put};
    status code = ana_spread_agree(over, STATUS_OK, err);
    if (code == STATUS_OK) code = ana_spread_run(over, &items, &report, err);
    text_format(&shared, "%d", given->rank == 0 ? 10 : 99);
    if (code == STATUS_OK) code = ana_spread_share(over, &shared, err);
    if (code == STATUS_OK) items.count = atoi(shared.bytes);
    if (code == STATUS_OK) code = ana_spread_run(over, &items, &report, err);
    text_free(&shared);
    if (code == STATUS_OK && given->rank == 0) {
        fprintf(stderr, "mpi_spread: %d ranks, %d lost\n", report.rank_count,
                report.lost_rank_count);
    }
    return code;
}

int main(int argc, char **argv)
{
    error_message err = {0};
    ana_spread *over = NULL;
    setting given = {.fault = "", .faulty_rank = -1};
    if (argc != 3 && argc != 6) return 2;
    if (argc == 6) {
        given = (setting){.fault = argv[3], .faulty_rank = atoi(argv[4]), .file = argv[5]};
    }
    ana_spread_options options = {
        .thread_count = atoi(argv[2]), .interrupt = &is_interrupted, .watchdog_ns = 3000000000};
    signal(SIGINT, note);
    signal(SIGTERM, note);
    status code = join(argv[0], &options.carrier, &err);
    if (options.carrier != NULL) given.rank = options.carrier->rank;
    if (code == STATUS_OK) code = ana_spread_open(&options, &over, &err);
    if (code == STATUS_OK) code = spread(over, &given, atoll(argv[1]), &err);
    if (code != STATUS_OK && (over == NULL || ana_spread_is_speaker(over))) {
        fprintf(stderr, "mpi_spread: %s\n", err.message);
    }
    fflush(stdout);
    ana_spread_close(over);
    return code == STATUS_OK ? 0 : 1;
}
