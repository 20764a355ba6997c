#include "cli/launcher.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { PROCESSES_MAX = 1 << 20 };

int cli_launched_count(const char **variable)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    int64_t count = 1;
    const char *found = NULL;
    for (size_t name = 0; found == NULL && name < sizeof names / sizeof names[0]; name++) {
        const char *text = getenv(names[name]);
        if (text == NULL) continue;
        if (text_parse_int64(text, names[name], 1, PROCESSES_MAX, &count, NULL) == STATUS_OK) {
            found = names[name];
        }
    }
    if (variable != NULL) *variable = found;
    return (int)count;
}

/// The integer in the first of these variables that has one.
static int first_of(const char *const *names, int name_count, int min, int fallback)
{
    int64_t value = fallback;
    for (int name = 0; name < name_count; name++) {
        const char *text = getenv(names[name]);
        if (text == NULL) continue;
        if (text_parse_int64(text, names[name], min, PROCESSES_MAX, &value, NULL) == STATUS_OK)
            break;
    }
    return (int)value;
}

int cli_launched_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    return cli_launched_count(NULL) > 1 ? first_of(names, 3, 0, 0) : 0;
}

int cli_launched_here_count(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
    return cli_launched_count(NULL) > 1 ? first_of(names, 2, 1, 1) : 1;
}

status cli_launcher_check(const char *transport, error_message *err)
{
    const char *variable = NULL;
    const int count = cli_launched_count(&variable);
    if (strcmp(transport, "local") != 0 || count == 1) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s=%d: a launcher has started several processes, but --transport local has "
                     "all ranks in one; give --transport mpi",
                     variable, count);
}
