/// What starting dynmo costs: from the start of the process to its end, `dynmo --version`.
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void start_and_wait(void *context)
{
    const posix_spawn_file_actions_t *silent = context;
    char *argv[] = {(char[]){"dynmo"}, (char[]){"--version"}, NULL};
    pid_t child = 0;
    int ended = -1;
    if (posix_spawn(&child, DYNMO_PATH, silent, NULL, argv, environ) != 0 ||
        waitpid(child, &ended, 0) != child || ended != 0) {
        fprintf(stderr, "bench_startup: '%s --version' failed\n", DYNMO_PATH);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    posix_spawn_file_actions_t silent;
    posix_spawn_file_actions_init(&silent);
    posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);

    const bench_time time = bench_measure(smoke, start_and_wait, &silent);

    posix_spawn_file_actions_destroy(&silent);
    bench_print("startup_ms", time.median_ns / 1e6, "ms", "dynmo --version");
    return 0;
}
