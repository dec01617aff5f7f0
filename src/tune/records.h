/* The examples of a file as JSON objects: lines of JSON, the elements of one JSON array, or the
 * records of CSV, whose first line names the columns (RFC 4180). An array is told by the first
 * character of the file, CSV by the file's name. Memory is that of the longest line, of an array
 * that of the longest element. Threads: one at a time. */
#ifndef TUNE_RECORDS_H
#define TUNE_RECORDS_H

#include "base/arena.h"
#include "tune/lines.h"

typedef enum mc_records_kind { MC_RECORDS_LINES, MC_RECORDS_ARRAY, MC_RECORDS_CSV } mc_records_kind;

typedef struct mc_records {
    mc_lines lines;
    mc_records_kind kind;
    bool begun;
    uint64_t number;  /* of the line on which the last record begins */
    mc_buffer record; /* the last record that is no line */
    /* of an array */
    mc_str rest;    /* of the last part of a line */
    bool ends_line; /* a line feed follows it */
    bool ended, comma;
    /* of CSV */
    mc_arena arena;
    mc_buffer columns; /* mc_str: names, in the arena */
    mc_buffer ends;    /* size_t: where the fields of the last record end in `values` */
    mc_buffer values;
    bool misfit; /* the last error is of its record alone */
} mc_records;

/* errors  those of mc_lines_open. Closed by mc_records_close, after an error too */
mica_status mc_records_open(mc_records *records, const char *path);
void mc_records_close(mc_records *records);

/* The next record, which lives until the next call. record->ptr NULL: the end.
 * errors  those of mc_lines_next; MICA_EFORMAT a malformed array or CSV. With records->misfit set
 *         the next record may be read all the same */
mica_status mc_records_next(mc_records *records, mc_str *record);

#endif
