/* A child has pipes, and is in a job that ends with this process or with mc_process_close: what it
 * has started ends, too. */
#include "base/process.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/process_text.h"
#include "base/system.h"
#include "base/windows/posix.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 3, READS = 16, LOOK_MS = 5, END_US = 200000, MAX_COMMAND = 32767 };
enum { CHILD_IN, CHILD_OUT, CHILD_ERR };

/* Our end of a pipe. A read goes on while nobody waits for it: its bytes stay where they are. */
typedef struct stream {
    HANDLE pipe; /* NULL: closed */
    OVERLAPPED io;
    bool reading;
    char *bytes; /* MC_PROCESS_CHUNK of them */
    DWORD room;
} stream;

struct mc_process {
    HANDLE process, job; /* NULL: not started */
    DWORD id;
    stream streams[STREAMS];
    mc_process_text text;
    char end[48];
};

/* ---- pipes ---- */

/* A pipe that is read or written without waiting at this end, and has a child's end that is
 * inherited. */
static bool make_pipe(stream *ours, bool to_child, HANDLE *theirs) {
    static atomic_uint number;
    wchar_t name[80];
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    swprintf(name, sizeof name / sizeof *name, L"\\\\.\\pipe\\mica-%lu-%u-%llx",
             GetCurrentProcessId(), atomic_fetch_add(&number, 1), mc_now_us());
    HANDLE pipe = CreateNamedPipeW(name,
                                   (to_child ? PIPE_ACCESS_OUTBOUND : PIPE_ACCESS_INBOUND) |
                                       FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE,
                                   PIPE_TYPE_BYTE | PIPE_REJECT_REMOTE_CLIENTS, 1, MC_PROCESS_CHUNK,
                                   MC_PROCESS_CHUNK, 0, NULL);
    if (pipe == INVALID_HANDLE_VALUE) return false;
    ours->pipe = pipe;
    ours->io.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
    *theirs = CreateFileW(name, to_child ? GENERIC_READ : GENERIC_WRITE | FILE_READ_ATTRIBUTES, 0,
                          &inherited, OPEN_EXISTING, 0, NULL);
    if (*theirs == INVALID_HANDLE_VALUE) *theirs = NULL;
    return ours->io.hEvent && *theirs;
}

static void close_pipe(stream *s) {
    DWORD n;
    if (s->reading && CancelIoEx(s->pipe, &s->io))
        (void)GetOverlappedResult(s->pipe, &s->io, &n, TRUE);
    s->reading = false;
    if (s->pipe) CloseHandle(s->pipe);
    s->pipe = NULL;
}

static void stream_deinit(stream *s) {
    close_pipe(s);
    if (s->io.hEvent) CloseHandle(s->io.hEvent);
    mc_free(s->bytes);
}

/* Begins to read, unless that was done. */
static void begin_reading(stream *s) {
    if (!s->pipe || s->reading) return;
    s->reading =
        ReadFile(s->pipe, s->bytes, s->room, NULL, &s->io) || GetLastError() == ERROR_IO_PENDING;
    if (!s->reading) close_pipe(s);
}

/* How many bytes have come; 0: none yet, or the pipe is closed now. */
static DWORD take_bytes(stream *s) {
    DWORD n = 0;
    if (!s->reading) return 0;
    if (GetOverlappedResult(s->pipe, &s->io, &n, FALSE)) {
        s->reading = false;
        return n;
    }
    if (GetLastError() == ERROR_IO_INCOMPLETE) return 0;
    s->reading = false;
    close_pipe(s);
    return 0;
}

/* ---- starting ---- */

/* Adds an argument as the C library of a program takes it apart: backslashes count twice before a
 * quotation mark alone. */
static bool add_argument(mc_buffer *line, const char *text) {
    size_t slashes = 0;
    bool added = (line->len == 0 || mc_buffer_add_byte(line, ' ')) && mc_buffer_add_byte(line, '"');
    for (; added && *text; text++) {
        for (size_t i = 0; added && *text == '"' && i <= slashes; i++)
            added = mc_buffer_add_byte(line, '\\');
        slashes = *text == '\\' ? slashes + 1 : 0;
        added = added && mc_buffer_add_byte(line, *text);
    }
    for (size_t i = 0; added && i < slashes; i++)
        added = mc_buffer_add_byte(line, '\\');
    return added && mc_buffer_add_byte(line, '"');
}

/* The command line, freed with free; NULL sets errno. */
static wchar_t *join_arguments(const char *const *argv) {
    mc_buffer line = {0};
    bool joined = true;
    for (size_t i = 0; joined && argv[i]; i++)
        joined = add_argument(&line, argv[i]);
    const char *text = joined ? mc_buffer_cstr(&line) : NULL;
    errno = ENOMEM;
    wchar_t *wide = text ? mc_utf16(text) : NULL;
    mc_buffer_deinit(&line);
    if (wide && wcslen(wide) >= MAX_COMMAND) {
        free(wide);
        wide = NULL;
        errno = E2BIG;
    }
    return wide;
}

static size_t name_length(const wchar_t *variable) {
    const wchar_t *end = *variable ? wcschr(variable + 1, L'=') : NULL; /* one is "=C:" */
    return end ? (size_t)(end - variable) : wcslen(variable);
}

static bool is_replaced(const wchar_t *variable, wchar_t *const *by, size_t count) {
    size_t n = name_length(variable);
    for (size_t i = 0; i < count; i++)
        if (name_length(by[i]) == n && _wcsnicmp(by[i], variable, n) == 0) return true;
    return false;
}

static bool add_variable(mc_buffer *block, const wchar_t *variable) {
    return mc_buffer_add(block, variable, (wcslen(variable) + 1) * sizeof *variable);
}

/* This process's variables, with those of `more`: texts one after the other, and an empty one. */
static bool merge_variables(const char *const *more, mc_buffer *block) {
    enum { MOST = 16 };
    wchar_t *added[MOST], *own = GetEnvironmentStringsW();
    size_t count = 0;
    bool merged = own != NULL;
    for (; merged && more && more[count]; count += merged)
        merged = count < MOST && (added[count] = mc_utf16(more[count]));
    for (const wchar_t *at = own; merged && *at; at += wcslen(at) + 1)
        merged = is_replaced(at, added, count) || add_variable(block, at);
    for (size_t i = 0; i < count; i++) {
        merged = merged && add_variable(block, added[i]);
        free(added[i]);
    }
    if (own) FreeEnvironmentStringsW(own);
    return merged && mc_buffer_add(block, L"", sizeof(wchar_t));
}

/* The program's path, freed with free; NULL sets errno. A name is looked for on PATH alone: neither
 * beside this program nor in the current folder. Batch files, whose arguments the shell takes apart
 * again, are no programs here. */
static wchar_t *find_program(const char *name) {
    const char *folders = getenv("PATH");
    bool is_path = strpbrk(name, "/\\:") != NULL;
    wchar_t *given = is_path ? mc_utf16_path(name) : mc_utf16(name);
    wchar_t *path = folders ? mc_utf16(folders) : NULL, *found = NULL;
    DWORD n = 0;
    if (given && (path || is_path)) n = SearchPathW(path, given, L".exe", 0, NULL, NULL);
    if (n > 0) found = malloc(n * sizeof *found);
    if (found && SearchPathW(path, given, L".exe", n, found, NULL) >= n) found[0] = L'\0';
    free(given);
    free(path);
    size_t len = found ? wcslen(found) : 0;
    if (len > 4 && _wcsicmp(found + len - 4, L".exe") == 0) return found;
    errno = n > 0 && !found ? ENOMEM : len > 0 ? ENOEXEC : ENOENT;
    free(found);
    return NULL;
}

/* In a job of its own from its first instruction on; what it starts is in it, too. */
static bool put_into_job(mc_process *p, HANDLE thread) {
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {.BasicLimitInformation.LimitFlags =
                                                       JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE};
    p->job = CreateJobObjectW(NULL, NULL);
    bool ready = p->job &&
                 SetInformationJobObject(p->job, JobObjectExtendedLimitInformation, &limits,
                                         sizeof limits) &&
                 AssignProcessToJobObject(p->job, p->process) && ResumeThread(thread) != (DWORD)-1;
    if (!ready) mc_set_errno(GetLastError());
    return ready;
}

/* Without a console: it gets none of this one's interrupts, and opens no window. */
static bool spawn(mc_process *p, const wchar_t *program, wchar_t *line, wchar_t *variables,
                  HANDLE theirs[STREAMS]) {
    STARTUPINFOEXW how = {.StartupInfo = {.cb = sizeof how,
                                          .dwFlags = STARTF_USESTDHANDLES,
                                          .hStdInput = theirs[CHILD_IN],
                                          .hStdOutput = theirs[CHILD_OUT],
                                          .hStdError = theirs[CHILD_ERR]}};
    PROCESS_INFORMATION child;
    SIZE_T bytes = 0;
    InitializeProcThreadAttributeList(NULL, 1, 0, &bytes);
    how.lpAttributeList = malloc(bytes);
    bool made =
        how.lpAttributeList && InitializeProcThreadAttributeList(how.lpAttributeList, 1, 0, &bytes);
    bool started =
        made &&
        UpdateProcThreadAttribute(how.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, theirs,
                                  STREAMS * sizeof *theirs, NULL, NULL) &&
        CreateProcessW(program, line, NULL, NULL, TRUE,
                       CREATE_SUSPENDED | CREATE_NO_WINDOW | CREATE_UNICODE_ENVIRONMENT |
                           EXTENDED_STARTUPINFO_PRESENT,
                       variables, NULL, &how.StartupInfo, &child);
    if (!started) mc_set_errno(how.lpAttributeList ? GetLastError() : ERROR_OUTOFMEMORY);
    if (made) DeleteProcThreadAttributeList(how.lpAttributeList);
    free(how.lpAttributeList);
    if (!started) return false;
    p->process = child.hProcess;
    p->id = child.dwProcessId;
    started = put_into_job(p, child.hThread);
    if (!started) TerminateProcess(p->process, 1);
    CloseHandle(child.hThread);
    return started;
}

static bool start(mc_process *p, const mc_process_options *options, HANDLE theirs[STREAMS]) {
    for (int i = 0; i < STREAMS; i++)
        if (!make_pipe(&p->streams[i], i == CHILD_IN, &theirs[i])) {
            mc_set_errno(GetLastError());
            return false;
        }
    mc_buffer variables = {0};
    errno = ENOMEM;
    bool merged = merge_variables(options->env, &variables);
    wchar_t *program = merged ? find_program(options->argv[0]) : NULL;
    wchar_t *line = program ? join_arguments(options->argv) : NULL;
    bool started = line && spawn(p, program, line, (wchar_t *)(void *)variables.data, theirs);
    free(line);
    free(program);
    mc_buffer_deinit(&variables);
    return started;
}

mica_status mc_process_start(const mc_process_options *options, mc_process **out) {
    HANDLE theirs[STREAMS] = {NULL};
    *out = NULL;
    mc_process *p = mc_calloc(1, sizeof *p);
    if (!p) return mc_fail_nomem("a process");
    mica_status status = mc_process_text_init(&p->text, options->max_line_bytes);
    for (int i = CHILD_OUT; i < STREAMS && status == MICA_OK; i++) {
        p->streams[i].room = i == CHILD_OUT ? MC_PROCESS_CHUNK : MC_PROCESS_ERRORS - 1;
        p->streams[i].bytes = mc_alloc(p->streams[i].room);
        if (!p->streams[i].bytes) status = mc_fail_nomem("a process");
    }
    if (status == MICA_OK && !start(p, options, theirs))
        status = mc_fail_errno(errno, "cannot start %s", options->argv[0]);
    for (int i = 0; i < STREAMS; i++)
        if (theirs[i]) CloseHandle(theirs[i]);
    if (status == MICA_OK)
        *out = p;
    else
        mc_process_close(&p, 0);
    return status;
}

int64_t mc_process_id(const mc_process *process) {
    return process->id;
}

/* ---- writing ---- */

/* Milliseconds until the deadline, rounded up. */
static DWORD wait_ms(uint64_t deadline) {
    uint64_t now = mc_now_us();
    if (now >= deadline) return 0;
    uint64_t ms = (deadline - now + 999) / 1000;
    return ms < INT_MAX ? (DWORD)ms : INT_MAX;
}

mica_status mc_process_write(mc_process *process, const char *bytes, size_t n, uint64_t deadline) {
    stream *in = &process->streams[CHILD_IN];
    while (n > 0) {
        DWORD written = 0, some = n < MC_PROCESS_CHUNK ? (DWORD)n : MC_PROCESS_CHUNK;
        if (!WriteFile(in->pipe, bytes, some, NULL, &in->io) && GetLastError() != ERROR_IO_PENDING)
            return mc_fail(MICA_EIO, "the process has closed its input");
        bool done = WaitForSingleObject(in->io.hEvent, wait_ms(deadline)) == WAIT_OBJECT_0;
        if (!done) (void)CancelIoEx(in->pipe, &in->io);
        bool good = GetOverlappedResult(in->pipe, &in->io, &written, TRUE);
        if (!good && (done || GetLastError() != ERROR_OPERATION_ABORTED))
            return mc_fail(MICA_EIO, "the process has closed its input");
        if (!good) return mc_fail(MICA_EIO, "the process does not read its input");
        bytes += written;
        n -= written;
    }
    return MICA_OK;
}

/* ---- reading ---- */

/* Takes what is there of standard error, up to a bound: a child may write faster than one reads. */
static void read_errors(mc_process *p) {
    stream *err = &p->streams[CHILD_ERR];
    for (int i = 0; i < READS; i++) {
        begin_reading(err);
        DWORD n = take_bytes(err);
        if (n == 0) return;
        memcpy(mc_process_text_errors_room(&p->text), err->bytes, n);
        p->text.errors.len += n;
    }
}

/* Takes what has come of standard output; drops it where `kept` is false. */
static mica_status read_output(mc_process *p, bool kept) {
    stream *out = &p->streams[CHILD_OUT];
    char *room = kept ? mc_process_text_room(&p->text) : NULL;
    if (kept && !room) return mc_fail_nomem("the lines of a process");
    DWORD n = take_bytes(out);
    if (room && n > 0) memcpy(room, out->bytes, n);
    if (room) p->text.lines.len += n;
    return MICA_OK;
}

/* Waits for output or an error's text. returns  whether something came, or an end of them */
static bool await_streams(mc_process *p, DWORD ms) {
    HANDLE events[2];
    DWORD n = 0;
    for (int i = CHILD_OUT; i < STREAMS; i++) {
        bool was_open = p->streams[i].pipe != NULL;
        begin_reading(&p->streams[i]);
        if (p->streams[i].reading) events[n++] = p->streams[i].io.hEvent;
        if (was_open && !p->streams[i].pipe) return true;
    }
    if (n == 0) Sleep(ms);
    return n > 0 && WaitForMultipleObjects(n, events, FALSE, ms) < WAIT_OBJECT_0 + n;
}

mica_status mc_process_read(mc_process *process, uint64_t deadline, mc_str *line,
                            mc_process_got *got) {
    *line = (mc_str){"", 0};
    *got = MC_PROCESS_LINE;
    for (bool found = false;;) {
        MC_TRY(mc_process_text_next(&process->text, line, &found));
        if (found) return MICA_OK;
        if (!process->streams[CHILD_OUT].pipe) {
            read_errors(process);
            *got = MC_PROCESS_END;
            *line = mc_process_text_rest(&process->text);
            return MICA_OK;
        }
        size_t had = process->text.lines.len - process->text.begin;
        (void)await_streams(process, wait_ms(deadline));
        read_errors(process);
        MC_TRY(read_output(process, true));
        bool came = process->text.lines.len > had || !process->streams[CHILD_OUT].pipe;
        if (!came && mc_now_us() >= deadline) {
            *got = MC_PROCESS_LATER;
            return MICA_OK;
        }
    }
}

const char *mc_process_errors(mc_process *process) {
    return mc_process_text_errors(&process->text);
}

/* ---- the end ---- */

static bool has_ended(const mc_process *p) {
    return WaitForSingleObject(p->process, 0) == WAIT_OBJECT_0;
}

/* Waits for the end, and reads and drops output meanwhile. */
static void await_end(mc_process *p, uint64_t deadline) {
    while (!has_ended(p) && mc_now_us() < deadline) {
        DWORD ms = wait_ms(deadline);
        if (!await_streams(p, ms < LOOK_MS ? ms : LOOK_MS)) continue;
        read_errors(p);
        (void)read_output(p, false);
    }
}

const char *mc_process_describe_end(mc_process *process) {
    DWORD code = 0;
    await_end(process, mc_now_us() + END_US);
    if (!has_ended(process) || !GetExitCodeProcess(process->process, &code))
        return "closed its output";
    snprintf(process->end, sizeof process->end,
             code < 0xC0000000 ? "ended with status %lu" : "was ended by exception 0x%lX", code);
    return process->end;
}

void mc_process_close(mc_process **process, uint64_t grace_us) {
    if (!process || !*process) return;
    mc_process *p = *process;
    *process = NULL;
    close_pipe(&p->streams[CHILD_IN]);
    if (p->process) {
        await_end(p, mc_now_us() + grace_us);
        if (p->job) (void)TerminateJobObject(p->job, 1); /* what it has started, too */
        (void)WaitForSingleObject(p->process, INFINITE);
        CloseHandle(p->process);
    }
    if (p->job) CloseHandle(p->job);
    for (int i = 0; i < STREAMS; i++)
        stream_deinit(&p->streams[i]);
    mc_process_text_deinit(&p->text);
    mc_free(p);
}
