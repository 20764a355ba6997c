#include "base/launcher.h"

#include "base/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_PORT = 20000, PORTS = 10000 };

/// The variables of a launcher; it has started this process where the first two have numbers.
typedef struct launcher {
    const char *size;
    const char *rank;
    const char *here; // NULL: it does not say
    const char *local;
} launcher;

/// The innermost first: mpirun may be called by a script of srun, or where torchrun's are set.
static const launcher launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
    {"WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NULL, "SLURM_LOCALID"},
};
enum { LAUNCHER_COUNT = sizeof launchers / sizeof launchers[0] };

/// The number in a variable, or fallback.
static int number_in(const char *variable, int min, int fallback)
{
    int64_t value = fallback;
    const char *text = variable != NULL ? getenv(variable) : NULL;
    if (text == NULL || text_parse_int64(text, variable, min, INT_MAX, &value, NULL) != STATUS_OK) {
        return fallback;
    }
    return (int)value;
}

/// Who has started this process; NULL: nobody says so.
static const launcher *find(void)
{
    for (int row = 0; row < LAUNCHER_COUNT; row++) {
        const launcher *one = &launchers[row];
        if (number_in(one->size, 1, 0) > 0 && number_in(one->rank, 0, -1) >= 0) return one;
    }
    return NULL;
}

int launcher_process_count(const char **variable)
{
    const launcher *found = find();
    if (variable != NULL) *variable = found != NULL ? found->size : NULL;
    return found != NULL ? number_in(found->size, 1, 1) : 1;
}

int launcher_rank(void)
{
    const launcher *found = find();
    return launcher_process_count(NULL) > 1 ? number_in(found->rank, 0, 0) : 0;
}

int launcher_here_count(void)
{
    const launcher *found = find();
    return launcher_process_count(NULL) > 1 ? number_in(found->here, 1, 1) : 1;
}

int launcher_local_rank(int fallback)
{
    const launcher *found = find();
    return found != NULL ? number_in(found->local, 0, fallback) : fallback;
}

/// The first host of a list of Slurm's: "a", "a,b", "a[03-07,9],b" or "a[3,5]-x": a, a, a03, a3-x.
static void copy_first_host(const char *list, char host[LAUNCHER_HOST_BYTES])
{
    const int prefix = (int)strcspn(list, ",[");
    const char *range = list + prefix;
    if (*range != '[') {
        snprintf(host, LAUNCHER_HOST_BYTES, "%.*s", prefix, list);
        return;
    }
    const int digits = (int)strcspn(range + 1, ",-]");
    const char *rest = strchr(range, ']');
    rest = rest != NULL ? rest + 1 : "";
    snprintf(host, LAUNCHER_HOST_BYTES, "%.*s%.*s%.*s", prefix, list, digits, range + 1,
             (int)strcspn(rest, ",["), rest);
}

status launcher_meeting_point(char host[LAUNCHER_HOST_BYTES], int *port, error_message *err)
{
    const char *address = getenv("MASTER_ADDR");
    const char *port_text = getenv("MASTER_PORT");
    const char *nodes = getenv("SLURM_STEP_NODELIST");
    int64_t number = FIRST_PORT + number_in("SLURM_JOB_ID", 0, 0) % PORTS;
    if (address == NULL && nodes == NULL) {
        return error_set(err, STATUS_INVALID,
                         "no MASTER_ADDR, and no SLURM_STEP_NODELIST: nothing says where rank 0 "
                         "can be reached");
    }
    if (port_text != NULL) {
        TRY(text_parse_int64(port_text, "MASTER_PORT", 1, 65535, &number, err));
    } else if (nodes == NULL) {
        return error_set(err, STATUS_INVALID, "MASTER_ADDR is set, MASTER_PORT is not");
    }
    *port = (int)number;
    if (address != NULL) {
        snprintf(host, LAUNCHER_HOST_BYTES, "%s", address);
    } else {
        copy_first_host(nodes, host);
    }
    return STATUS_OK;
}
