/* The shim of one MPI: compiled with its mpicc, into a library that libmica loads. */
#include "group/mpi/shim.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Handles are kept behind pointers: what they are differs between MPIs. */
static int keep_comm(MPI_Comm comm, void **kept) {
    MPI_Comm *box = malloc(sizeof *box);
    *kept = box;
    if (!box) return MPI_ERR_OTHER;
    *box = comm;
    return MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

static MPI_Comm comm_of(void *kept) {
    return *(MPI_Comm *)kept;
}

static int measure(void *comm, int *rank, int *size) {
    int code = MPI_Comm_rank(comm_of(comm), rank);
    return code ? code : MPI_Comm_size(comm_of(comm), size);
}

static int do_init(void **comm, int *rank, int *size) {
    int provided = 0, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (code) return code;
    if (provided < MPI_THREAD_SERIALIZED) return MPI_ERR_OTHER;
    code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm made;
    if (!code) code = MPI_Comm_dup(MPI_COMM_WORLD, &made);
    if (!code) code = keep_comm(made, comm);
    return code ? code : measure(*comm, rank, size);
}

static int do_split(void *comm, int color, int key, void **part, int *rank, int *size) {
    MPI_Comm made;
    int code = MPI_Comm_split(comm_of(comm), color, key, &made);
    if (!code) code = keep_comm(made, part);
    return code ? code : measure(*part, rank, size);
}

static void do_free(void **comm) {
    if (*comm) MPI_Comm_free((MPI_Comm *)*comm);
    free(*comm);
    *comm = NULL;
}

static void do_finalize(void) {
    MPI_Finalize();
}

static void do_abort(void *comm, int code) {
    MPI_Abort(comm ? comm_of(comm) : MPI_COMM_WORLD, code);
}

/* The box of a request that a call begins: MPI_REQUEST_NULL until then. */
static MPI_Request *new_request(void **request) {
    MPI_Request *box = malloc(sizeof *box);
    if (box) *box = MPI_REQUEST_NULL;
    *request = box;
    return box;
}

/* Of a call that did not begin nothing stays. */
static int begun(int code, void **request) {
    if (!code) return code;
    free(*request);
    *request = NULL;
    return code;
}

/* The copy has the error handler of the communicator. */
static int do_duplicate(void *comm, void **copy, void **request) {
    MPI_Request *r = new_request(request);
    MPI_Comm *box = malloc(sizeof *box);
    *copy = box;
    int code = r && box ? MPI_Comm_idup(comm_of(comm), box, r) : MPI_ERR_OTHER;
    if (code) {
        free(box);
        *copy = NULL;
    }
    return begun(code, request);
}

static int do_all_gather(void *comm, const void *in, int bytes, void *out, void **request) {
    MPI_Request *r = new_request(request);
    if (!r) return MPI_ERR_OTHER;
    return begun(MPI_Iallgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, comm_of(comm), r),
                 request);
}

static int do_all_to_all(void *comm, const void *in, int bytes, void *out, void **request) {
    MPI_Request *r = new_request(request);
    if (!r) return MPI_ERR_OTHER;
    return begun(MPI_Ialltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, comm_of(comm), r),
                 request);
}

static int do_broadcast(void *comm, void *data, int bytes, int root, void **request) {
    MPI_Request *r = new_request(request);
    if (!r) return MPI_ERR_OTHER;
    return begun(MPI_Ibcast(data, bytes, MPI_BYTE, root, comm_of(comm), r), request);
}

static int do_send(void *comm, const void *data, int bytes, int to, int tag, void **request) {
    MPI_Request *r = new_request(request);
    if (!r) return MPI_ERR_OTHER;
    return begun(MPI_Isend(data, bytes, MPI_BYTE, to, tag, comm_of(comm), r), request);
}

static int do_recv(void *comm, void *data, int bytes, int from, int tag, void **request) {
    MPI_Request *r = new_request(request);
    if (!r) return MPI_ERR_OTHER;
    return begun(MPI_Irecv(data, bytes, MPI_BYTE, from, tag, comm_of(comm), r), request);
}

static int do_test(void **request, int *done) {
    int code = MPI_Test(*request, done, MPI_STATUS_IGNORE);
    if (code || !*done) return code;
    free(*request);
    *request = NULL;
    return code;
}

static int do_probe(void *comm, int tag, int *there, int *from) {
    MPI_Status status;
    int code = MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_of(comm), there, &status);
    if (!code && *there) *from = status.MPI_SOURCE;
    return code;
}

static void do_error_text(int code, char *text, size_t bytes) {
    char all[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (MPI_Error_string(code, all, &length) != MPI_SUCCESS)
        snprintf(all, sizeof all, "error %d", code);
    snprintf(text, bytes, "%s", all);
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const mc_mpi_shim mica_mpi_shim = {
    .version = MC_MPI_SHIM_VERSION,
#if defined(OPEN_MPI)
    .library = "Open MPI " TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(
        OMPI_RELEASE_VERSION),
#elif defined(MPICH_VERSION)
    .library = "MPICH " MPICH_VERSION,
#else
    .library = "MPI " TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION),
#endif
#define CALL(result, name, arguments) .name = do_##name,
#include "group/mpi/call_list.h"
};
