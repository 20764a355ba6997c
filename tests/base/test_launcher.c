/// What launchers say in the environment: which one counts, and where rank 0 is reached.
#include "base/launcher.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_SIZE",
                                        "PMI_RANK",
                                        "WORLD_SIZE",
                                        "RANK",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_PROCID",
                                        "SLURM_LOCALID",
                                        "SLURM_STEP_NODELIST",
                                        "SLURM_JOB_ID",
                                        "MASTER_ADDR",
                                        "MASTER_PORT"};

static int clear(void **state)
{
    for (size_t index = 0; index < sizeof variables / sizeof variables[0]; index++) {
        unsetenv(variables[index]);
    }
    return 0;
}

/// Sets variables given as "NAME=value ...".
static void set(const char *pairs)
{
    char text[512];
    strcpy(text, pairs);
    for (char *pair = strtok(text, " "); pair != NULL; pair = strtok(NULL, " ")) {
        char *value = strchr(pair, '=');
        *value = '\0';
        setenv(pair, value + 1, 1);
    }
}

TEST_BETWEEN(without_a_launcher_a_process_is_alone, clear, NULL)
{
    const char *variable = "";

    assert_int_equal(launcher_process_count(&variable), 1);
    assert_null(variable);
    assert_int_equal(launcher_rank(), 0);
    assert_int_equal(launcher_here_count(), 1);
    assert_int_equal(launcher_local_rank(5), 5);
}

TEST_BETWEEN(the_innermost_launcher_counts, clear, NULL)
{
    const char *variable = NULL;

    set("SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_LOCALID=0");
    assert_int_equal(launcher_process_count(&variable), 2);
    assert_string_equal(variable, "SLURM_STEP_NUM_TASKS");
    assert_int_equal(launcher_rank(), 1);
    set("WORLD_SIZE=16 RANK=9 LOCAL_WORLD_SIZE=8 LOCAL_RANK=1");
    assert_int_equal(launcher_process_count(&variable), 16);
    assert_int_equal(launcher_rank(), 9);
    assert_int_equal(launcher_here_count(), 8);
    assert_int_equal(launcher_local_rank(0), 1);
    set("OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3");
    assert_int_equal(launcher_process_count(&variable), 4);
    assert_int_equal(launcher_rank(), 3);
}

TEST_BETWEEN(a_size_without_a_rank_is_of_no_launcher, clear, NULL)
{
    set("WORLD_SIZE=16");
    assert_int_equal(launcher_process_count(NULL), 1);
    set("RANK=x");
    assert_int_equal(launcher_process_count(NULL), 1);
}

TEST_BETWEEN(rank_0_is_where_torchrun_or_slurm_say, clear, NULL)
{
    static const struct {
        const char *set;
        const char *host;
        int port;
    } cases[] = {
        {"MASTER_ADDR=10.0.0.1 MASTER_PORT=29500", "10.0.0.1", 29500},
        {"SLURM_STEP_NODELIST=a SLURM_JOB_ID=1234567", "a", 24567},
        {"SLURM_STEP_NODELIST=a,b[1-2]", "a", 20000},
        {"SLURM_STEP_NODELIST=gpu[03-07,9],cpu", "gpu03", 20000},
        {"SLURM_STEP_NODELIST=r[3,5]-n[1-4]", "r3-n", 20000},
        {"SLURM_STEP_NODELIST=a[07 MASTER_PORT=1", "a07", 1},
        {"SLURM_STEP_NODELIST=a MASTER_ADDR=b MASTER_PORT=65535", "b", 65535},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        char host[LAUNCHER_HOST_BYTES];
        int port = 0;
        (void)clear(state);
        set(cases[index].set);

        require(launcher_meeting_point(host, &port, &why));

        assert_string_equal(host, cases[index].host);
        assert_int_equal(port, cases[index].port);
    }
}

TEST_BETWEEN(a_meeting_point_that_nobody_names_is_refused, clear, NULL)
{
    static const struct {
        const char *set;
        const char *message;
    } cases[] = {
        {"RANK=0", "no MASTER_ADDR, and no SLURM_STEP_NODELIST: nothing says where rank 0 can be "
                   "reached"},
        {"MASTER_ADDR=a", "MASTER_ADDR is set, MASTER_PORT is not"},
        {"MASTER_ADDR=a MASTER_PORT=65536", "MASTER_PORT: 65536 is outside [1, 65535]"},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        char host[LAUNCHER_HOST_BYTES] = "untouched";
        int port = 7;
        (void)clear(state);
        set(cases[index].set);

        assert_fails(launcher_meeting_point(host, &port, &why), STATUS_INVALID,
                     cases[index].message);
        assert_string_equal(host, "untouched");
        assert_int_equal(port, 7);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
