// Who writes, and whether a writer still lives.
#include "traces/store/sql.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct process {
    char host[256];
    char boot[64];          // identity of the host's boot; "" where the system tells none
    char pid_namespace[64]; // "" where the system tells none
    int64_t pid;
    int64_t start_ticks; // since boot; 0 where the system tells none
} process;

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

static process this_process(void)
{
    process self = {.pid = getpid()};
    char state = 0;
    if (gethostname(self.host, sizeof self.host - 1) != 0) self.host[0] = '\0';
    read_line("/proc/sys/kernel/random/boot_id", self.boot, sizeof self.boot);
    const ssize_t length =
        readlink("/proc/self/ns/pid", self.pid_namespace, sizeof self.pid_namespace - 1);
    if (length < 0) self.pid_namespace[0] = '\0';
    if (!read_stat(self.pid, &state, &self.start_ticks)) self.start_ticks = 0;
    return self;
}

static bool is_text(sqlite3_value *value, const char *text)
{
    const char *there = (const char *)sqlite3_value_text(value);
    return there != NULL && strcmp(there, text) == 0;
}

static bool is_dead(sqlite3_value **values)
{
    const process self = this_process();
    const int64_t pid = sqlite3_value_int64(values[3]);
    int64_t start_ticks = 0;
    char state = 0;
    if (!is_text(values[0], self.host)) return false;
    if (!is_text(values[1], self.boot)) return true;
    if (!is_text(values[2], self.pid_namespace)) return false;
    if (self.start_ticks == 0) { // a system without /proc
        return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
    }
    if (!read_stat(pid, &state, &start_ticks)) return true;
    return state == 'Z' || state == 'X' || start_ticks != sqlite3_value_int64(values[4]);
}

static void answer_is_dead(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    sqlite3_result_int(context, is_dead(values));
}

status sql_define_process_is_dead(trace_store *store, error_message *err)
{
    const int code =
        sqlite3_create_function(store->db, "process_is_dead", 5, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                NULL, answer_is_dead, NULL, NULL);
    return code == SQLITE_OK ? STATUS_OK : sql_error(store, code, err);
}

status sql_process_id(trace_store *store, int64_t *process_id, error_message *err)
{
    if (store->process_id == 0) {
        const process self = this_process();
        TRY(sql_write_once(store, err,
                           "INSERT INTO process(host, boot, pid_namespace, pid, start_ticks) "
                           "VALUES(?,?,?,?,?)",
                           "tttii", self.host, self.boot, self.pid_namespace, self.pid,
                           self.start_ticks));
        store->process_id = sqlite3_last_insert_rowid(store->db);
    }
    *process_id = store->process_id;
    return STATUS_OK;
}
