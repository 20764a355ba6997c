#include "traces/store/store.h"

#include "base/arena.h"
#include "base/file.h"
#include "traces/store/sql.h"
#include "traces/store/stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

// Who writes, and whether a writer still lives.

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

/// Defines process_is_dead(host, boot, pid_namespace, pid, start_ticks): true only if the process
/// is known to be gone. See trace_store_open for what cannot be known.
static status define_process_is_dead(trace_store *store, error_message *err)
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

const char *const trace_status_names[TRACE_STATUS_COUNT] = {"running", "complete", "failed",
                                                            "interrupted"};

/// Of one text or blob: a study, a plan or a result; more is an attack.
enum { VALUE_BYTES_MAX = 1 << 28 };

/// Of a store that is read as a whole because it is compressed.
enum { IMAGE_BYTES_MAX = 1 << 30 };

/// True where a write-ahead log cannot be trusted: its index is memory that all users of the file
/// share, which hosts do not.
static bool is_network_file_system(const char *path)
{
    static const uint64_t types[] = {
        0x6969,     // NFS
        0x0BD00BD0, // Lustre
        0x47504653, // GPFS
        0x19830326, // BeeGFS
        0x00C36400, // Ceph
        0x517B,     // SMB
        0xFF534D42, // CIFS
        0xFE534D42, // SMB 2
        0x5346414F, // AFS
        0xAAD7AAEA, // PanFS
        0x20030528, // OrangeFS
        0x01021997, // 9P
        0x65735546, // FUSE: sshfs and others
    };
    struct statfs about;
    if (statfs(path, &about) != 0) return false;
    for (size_t type = 0; type < sizeof types / sizeof types[0]; type++) {
        if (((uint64_t)about.f_type & 0xFFFFFFFF) == types[type]) return true;
    }
    return false;
}

/// SQLite waits for nobody here: it says at once that another process has the file.
///
/// @param is_wal out: whether a write-ahead log is what came of it
static status set_journal(trace_store *store, const char *text, bool *is_wal, error_message *err)
{
    enum { NAP_MS = 5 };
    sqlite3_stmt *statement = NULL;
    TRY(sql_prepare(store, text, &statement, err));
    for (int waited_ms = 0;; waited_ms += NAP_MS) {
        bool has_row = false;
        const status result = sql_step(store, statement, &has_row, err);
        const bool is_busy = (sqlite3_errcode(store->db) & 0xff) == SQLITE_BUSY;
        if (result == STATUS_OK || !is_busy || waited_ms >= store->patience_ms) {
            *is_wal =
                has_row && strcmp((const char *)sqlite3_column_text(statement, 0), "wal") == 0;
            sqlite3_finalize(statement);
            return result;
        }
        sqlite3_reset(statement);
        sqlite3_sleep(NAP_MS);
    }
}

static status choose_journal(trace_store *store, error_message *err)
{
    bool is_wal = false;
    if (!is_network_file_system(store->path)) {
        TRY(set_journal(store, "PRAGMA journal_mode=WAL", &is_wal, err));
    }
    if (!is_wal && !store->is_in_memory) {
        TRY(set_journal(store, "PRAGMA journal_mode=TRUNCATE", &is_wal, err));
    }
    // A rollback journal that is not synced in full can leave a torn file after a power cut.
    return sql_run(store, is_wal ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL", err);
}

static status mark_interrupted(trace_store *store, error_message *err)
{
    int64_t is_needed = 0;
    // Looking first keeps an open without need from waiting for another writer.
    TRY(sql_get(store, &is_needed, err,
                "SELECT 1 FROM trace WHERE " SQL_WRITER_IS_DEAD
                " UNION ALL SELECT 1 FROM run WHERE " SQL_WRITER_IS_DEAD,
                ""));
    if (is_needed == 0) return STATUS_OK;
    return sql_run(store,
                   "UPDATE trace SET status='interrupted' WHERE " SQL_WRITER_IS_DEAD
                   ";UPDATE run SET status='interrupted' WHERE " SQL_WRITER_IS_DEAD,
                   err);
}

/// Reads a compressed store into memory of SQLite's.
///
/// @param image release with sqlite3_free
static status read_image(const char *path, unsigned char **image, int64_t *length,
                         error_message *err)
{
    trace_stream *stream = NULL;
    int64_t capacity = 0;
    size_t count = 1;
    *image = NULL;
    *length = 0;
    status result = trace_stream_open(path, &stream, err);
    while (result == STATUS_OK && count > 0) {
        if (*length == capacity) {
            capacity = capacity == 0 ? 1 << 20 : 2 * capacity;
            if (capacity > IMAGE_BYTES_MAX) {
                result = error_set(err, STATUS_INVALID,
                                   "%s: a compressed store of more than %d MiB; gunzip it first",
                                   path, IMAGE_BYTES_MAX >> 20);
                break;
            }
            unsigned char *grown = sqlite3_realloc64(*image, (uint64_t)capacity);
            if (grown == NULL) {
                result = error_set(err, STATUS_NO_MEMORY, "%s: out of memory", path);
                break;
            }
            *image = grown;
        }
        result =
            trace_stream_read(stream, *image + *length, (size_t)(capacity - *length), &count, err);
        *length += (int64_t)count;
    }
    trace_stream_close(stream);
    return result;
}

static status load_image(trace_store *store, error_message *err)
{
    unsigned char *image = NULL;
    int64_t length = 0;
    const status result = read_image(store->path, &image, &length, err);
    if (result != STATUS_OK) {
        sqlite3_free(image);
        return result;
    }
    // Of a store that was not closed the header asks for a log beside the file (versions 2 of its
    // format); in memory there is none.
    if (length > 19 && image[18] == 2 && image[19] == 2) image[18] = image[19] = 1;
    // SQLite releases the image, also where it refuses it.
    const int code =
        sqlite3_deserialize(store->db, "main", image, length, length,
                            SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
    return code == SQLITE_OK ? STATUS_OK : sql_error(store, code, err);
}

static int stop(void *unused)
{
    (void)unused;
    return 1;
}

/// SQLite runs expressions while it loads a schema, those in columns of the statistics, before the
/// schema can be compared with what it should be: until then values are short and statements too.
static void limit_work(sqlite3 *db, bool is_checked)
{
    enum { UNCHECKED_BYTES_MAX = 4096, UNCHECKED_STEPS_MAX = 100000 };
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, is_checked ? VALUE_BYTES_MAX : UNCHECKED_BYTES_MAX);
    sqlite3_progress_handler(db, UNCHECKED_STEPS_MAX, is_checked ? NULL : stop, NULL);
}

static status open_connection(trace_store *store, error_message *err)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOMUTEX |
                      (store->mode == TRACE_WRITE ? SQLITE_OPEN_CREATE : 0);
    // A name that begins as a path does is neither a URI nor ":memory:".
    char *name = memory_array(strlen(store->path) + 3, 1);
    const bool is_absolute = store->path[0] == '/';
    sprintf(name, "%s%s", is_absolute ? "" : "./", store->path);
    const int code =
        sqlite3_open_v2(store->is_in_memory ? ":memory:" : name, &store->db, flags, NULL);
    free(name);
    if (code != SQLITE_OK) return sql_error(store, code, err);
    store->patience_ms = SQL_PATIENCE_MS;
    sqlite3_busy_timeout(store->db, store->patience_ms);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    // A schema that is not trusted could not call json_valid: it is compared before any of its
    // expressions can run.
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    limit_work(store->db, false);
    TRY(sql_run(store,
                "PRAGMA foreign_keys=ON;PRAGMA temp_store=MEMORY;PRAGMA cache_size=-8192;"
                "PRAGMA cell_size_check=ON",
                err));
    return define_process_is_dead(store, err);
}

static status open_store(trace_store *store, error_message *err)
{
    TRY(open_connection(store, err));
    if (store->is_in_memory && store->mode == TRACE_READ) TRY(load_image(store, err));
    // First: a foreign file is refused before its journal mode is touched.
    TRY(schema_open(store, err));
    limit_work(store->db, true);
    if (store->mode == TRACE_READ) return sql_run(store, "PRAGMA query_only=ON", err);
    TRY(choose_journal(store, err));
    return mark_interrupted(store, err);
}

/// Looks for the file, or makes it: SQLite would not tell why it cannot.
static status find_file(const char *path, trace_mode mode, bool *created, error_message *err)
{
    struct stat about;
    *created = false;
    if (stat(path, &about) == 0) {
        if (S_ISREG(about.st_mode)) return STATUS_OK;
        return error_set(err, STATUS_IO, "%s: not a regular file", path);
    }
    if (mode == TRACE_READ) return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (file < 0 && errno == EEXIST) return STATUS_OK; // another process was faster
    if (file < 0) return error_set(err, STATUS_IO, "%s: cannot make it: %s", path, strerror(errno));
    close(file);
    *created = true;
    return STATUS_OK;
}

static status open_named(const char *path, trace_store named, trace_store **store,
                         error_message *err)
{
    trace_store *opened = memory_array(1, sizeof *opened);
    *opened = named;
    opened->path = memory_array(strlen(path) + 1, 1);
    strcpy(opened->path, path);
    const status result = open_store(opened, err);
    if (result != STATUS_OK) {
        trace_store_close(opened);
        return result;
    }
    *store = opened;
    return STATUS_OK;
}

status trace_store_open(const char *path, trace_mode mode, trace_store **store, error_message *err)
{
    bool created = false;
    TRY(find_file(path, mode, &created, err));
    const bool is_compressed = mode == TRACE_READ && trace_stream_is_gzip(path);
    const trace_store named = {.mode = mode, .created = created, .is_in_memory = is_compressed};
    TRY(open_named(path, named, store, err));
    if (mode == TRACE_READ) file_note_input(path);
    return STATUS_OK;
}

status trace_store_open_memory(trace_store **store, error_message *err)
{
    return open_named(":memory:", (trace_store){.mode = TRACE_WRITE, .is_in_memory = true}, store,
                      err);
}

/// Best effort: what cannot be written here is found at the next open, when this process is gone.
static void interrupt_own(trace_store *store)
{
    char text[256];
    snprintf(text, sizeof text,
             "UPDATE trace SET status='interrupted' WHERE status='running' AND process_id=%lld;"
             "UPDATE run SET status='interrupted' WHERE status='running' AND process_id=%lld",
             (long long)store->process_id, (long long)store->process_id);
    sqlite3_exec(store->db, text, NULL, NULL, NULL);
}

/// True for a file without trace and run that nobody else is at, also for one whose tables were
/// never made. A trace that was aborted and could not be deleted does not count.
static bool is_left_empty(trace_store *store)
{
    bool is_empty = false;
    int64_t is_used = 0;
    // Held until the connection closes. Without a write-ahead log it keeps readers out, too.
    sqlite3_exec(store->db, "PRAGMA busy_timeout=0;PRAGMA journal_mode=DELETE", NULL, NULL, NULL);
    if (sqlite3_exec(store->db, "BEGIN EXCLUSIVE", NULL, NULL, NULL) != SQLITE_OK) return false;
    if (schema_is_empty(store, &is_empty, NULL) != STATUS_OK) return false;
    if (is_empty) return true;
    const status result = sql_get(
        store, &is_used, NULL, "SELECT 1 FROM trace WHERE trace_id<>? UNION ALL SELECT 1 FROM run",
        "i", store->leftover_trace_id);
    return result == STATUS_OK && is_used == 0;
}

static void remove_files(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t suffix = 0; suffix < sizeof suffixes / sizeof suffixes[0]; suffix++) {
        char name[4096];
        const int length = snprintf(name, sizeof name, "%s%s", path, suffixes[suffix]);
        if (length > 0 && (size_t)length < sizeof name) unlink(name);
    }
}

/// At rest a store is one plain file that readers without write permission can open. While others
/// have it open this is refused, and the last of them does it.
static void leave_one_file(trace_store *store)
{
    sqlite3_exec(store->db, "PRAGMA optimize;PRAGMA busy_timeout=0;PRAGMA journal_mode=DELETE",
                 NULL, NULL, NULL);
}

void trace_store_close(trace_store *store)
{
    if (store == NULL) return;
    bool remove = store->created && store->db == NULL;
    if (store->db != NULL) {
        if (store->in_batch) sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
        if (store->process_id != 0) interrupt_own(store);
        remove = store->created && is_left_empty(store);
        if (remove) remove_files(store->path);
        if (!sqlite3_get_autocommit(store->db))
            sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
        if (store->mode == TRACE_WRITE && !remove) leave_one_file(store);
        const int closed = sqlite3_close(store->db);
        assert(closed == SQLITE_OK); // else a reader or writer is still open
        (void)closed;
    } else if (remove) {
        remove_files(store->path);
    }
    free(store->path);
    free(store);
}

static void close_within(void *store)
{
    trace_store_close(store);
}

status trace_store_open_within(const char *path, trace_mode mode, arena *memory,
                               trace_store **store, error_message *err)
{
    TRY(trace_store_open(path, mode, store, err));
    arena_own(memory, *store, close_within);
    return STATUS_OK;
}

const char *trace_store_path(const trace_store *store)
{
    return store->path;
}
