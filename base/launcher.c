#include "base/launcher.h"

#include "base/text.h"

#include <stdlib.h>

enum { PROCESSES_MAX = 1 << 20, NAMES_MAX = 4 };

static const char *const size_names[NAMES_MAX] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                                  "SLURM_STEP_NUM_TASKS"};
static const char *const rank_names[NAMES_MAX] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                                  "SLURM_PROCID"};
static const char *const here_names[NAMES_MAX] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
static const char *const local_names[NAMES_MAX] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                                   "SLURM_LOCALID"};

/// The number in the first of these variables that has one, and that variable's name; or fallback
/// and NULL.
static int first_of(const char *const names[NAMES_MAX], int min, int fallback, const char **found)
{
    int64_t value = fallback;
    *found = NULL;
    for (int name = 0; name < NAMES_MAX && names[name] != NULL && *found == NULL; name++) {
        const char *text = getenv(names[name]);
        if (text == NULL) continue;
        if (text_parse_int64(text, names[name], min, PROCESSES_MAX, &value, NULL) == STATUS_OK) {
            *found = names[name];
        }
    }
    return (int)value;
}

int launcher_process_count(const char **variable)
{
    const char *found = NULL;
    const int count = first_of(size_names, 1, 1, &found);
    if (variable != NULL) *variable = found;
    return count;
}

int launcher_rank(void)
{
    const char *found = NULL;
    return launcher_process_count(NULL) > 1 ? first_of(rank_names, 0, 0, &found) : 0;
}

int launcher_here_count(void)
{
    const char *found = NULL;
    return launcher_process_count(NULL) > 1 ? first_of(here_names, 1, 1, &found) : 1;
}

int launcher_local_rank(int fallback)
{
    const char *found = NULL;
    return first_of(local_names, 0, fallback, &found);
}
