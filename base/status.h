/// How a function says that it failed: a status code and one message in the caller's buffer.
#pragma once

typedef enum status {
    STATUS_OK = 0,
    STATUS_INVALID,     ///< an argument, option or value of an input is outside its limits
    STATUS_INFEASIBLE,  ///< the input is well formed, but no plan satisfies it
    STATUS_NO_MEMORY,   ///< the host ran out of memory
    STATUS_IO,          ///< the operating system refused: open, read, write, lock, disk full
    STATUS_FORMAT,      ///< a file is not what it claims to be: truncated, corrupt, wrong version
    STATUS_UNSUPPORTED, ///< understood, but this build or this version cannot do it
    STATUS_BACKEND,     ///< a device, a transport or another rank failed
    STATUS_EXCEEDED,    ///< a check found more than its tolerance; what it found has been told
    STATUS_UNDECIDED,   ///< a check found too few or too varied iterations to tell
    STATUS_COUNT
} status;

/// The buffer is the caller's. It is written only on failure.
typedef struct error_message {
    status code;
    char message[512]; // names the thing, its value and its limit; for files path and line
} error_message;

/// Writes code and the formatted message into err.
///
/// @param err may be NULL: then only the code travels
/// @return code, so that a function can end with `return error_set(...)`.
status error_set(error_message *err, status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Puts the formatted text and ": " in front of the message that err already holds, as a caller
/// does that knows which file or which key the inner function was reading.
///
/// @return code of err, or code_if_null if err is NULL.
status error_prefix(error_message *err, status code_if_null, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Puts name in front of a message about bad input that does not have it: what is found wrong deep
/// inside still says in which file.
///
/// @param code returned as it is
status error_about(error_message *err, status code, const char *name);

/// Refuses a number outside its limits.
///
/// @return STATUS_INVALID: name, number and [min, max]
status check_int_range(const char *name, int value, int min, int max, error_message *err);

/// Returns from the calling function with the status of expression unless it is STATUS_OK.
#define TRY(expression)                                                                            \
    do {                                                                                           \
        const status try_status = (expression);                                                    \
        if (try_status != STATUS_OK) return try_status;                                            \
    } while (0)
