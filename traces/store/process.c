#include "traces/store/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/// Reads the first line of a small file; "" if it cannot.
static void read_line(const char *path, char *line, int capacity)
{
    line[0] = '\0';
    FILE *file = fopen(path, "r");
    if (file == NULL) return;
    if (fgets(line, capacity, file) == NULL) line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    fclose(file);
}

/// State letter and start time of a process from /proc; false if there is no such process or no
/// /proc. The second field is the program's name in parentheses and may hold anything.
static bool read_stat(int64_t pid, char *state, int64_t *start_ticks)
{
    enum { START_FIELD = 22, STATE_FIELD = 3 };
    char path[64];
    char line[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    read_line(path, line, sizeof line);
    const char *at = strrchr(line, ')');
    if (at == NULL || at[1] != ' ') return false;
    *state = at[2];
    at += 2;
    for (int field = STATE_FIELD; field < START_FIELD; field++) {
        at = strchr(at, ' ');
        if (at == NULL) return false;
        at++;
    }
    long long ticks = 0;
    if (sscanf(at, "%lld", &ticks) != 1) return false;
    *start_ticks = ticks;
    return true;
}

void trace_process_self(trace_process *self)
{
    *self = (trace_process){.pid = getpid()};
    if (gethostname(self->host, sizeof self->host - 1) != 0) self->host[0] = '\0';
    read_line("/proc/sys/kernel/random/boot_id", self->boot, sizeof self->boot);
    const ssize_t length =
        readlink("/proc/self/ns/pid", self->pid_namespace, sizeof self->pid_namespace - 1);
    if (length < 0) self->pid_namespace[0] = '\0';
    char state = 0;
    if (!read_stat(self->pid, &state, &self->start_ticks)) self->start_ticks = 0;
}

bool trace_process_is_dead(const trace_process *process)
{
    trace_process self;
    trace_process_self(&self);
    if (strcmp(process->host, self.host) != 0) return false;
    if (strcmp(process->boot, self.boot) != 0) return true;
    if (strcmp(process->pid_namespace, self.pid_namespace) != 0) return false;
    if (self.start_ticks == 0) { // a system without /proc
        return kill((pid_t)process->pid, 0) != 0 && errno == ESRCH;
    }
    char state = 0;
    int64_t start_ticks = 0;
    if (!read_stat(process->pid, &state, &start_ticks)) return true;
    return state == 'Z' || state == 'X' || start_ticks != process->start_ticks;
}
