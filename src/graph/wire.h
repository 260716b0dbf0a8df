/* wire.h - an attempt on its way to another machine, and its result on the way back (parcel.h). They are the input and the
 * result of execute.h without files; the worker makes the files. */
#ifndef GRAPH_WIRE_H
#define GRAPH_WIRE_H

#include "base/parcel.h"

#define REDIS_PORT "6379" /* for a URL without a port */
#define LEASE_MS   15000  /* for an attempt on another machine, unless the flow has `lease:` */

#define WIRE_VERSIONS 1000      /* no version is so high: it is no specification */
#define WIRE_VERSION  3         /* an executor that does not know the version leaves the attempt to others */
#define LOST_VERSION  "version" /* why it returns it then */

/* All strings are borrowed. */
struct wire_spec {
    const char *run, *session, *task, *chain;
    unsigned attempt;
    const char *cwd; /* NULL: the executor's directory */
    char **argv;     /* ends with NULL; owned if it was read */
    size_t argc;
    const char *env; /* env_count strings KEY=value, one behind the other */
    size_t env_count;
    int64_t timeout_ms, grace_ms;
    int64_t channel;    /* the version of the values; 0: there are none */
    const char *values; /* the session that they are of: its own, or one around it; NULL: there are none */
    const char *answer; /* a JSON text; NULL: there is none */
    const char *files;  /* the hash of the files that it runs among (pack.h); NULL: the executor's own */
};

enum wire_end {
    WIRE_EXITED,
    WIRE_KILLED,      /* by signal `status` */
    WIRE_NOT_STARTED, /* errno `status`, at the step `output` */
    WIRE_REFUSED      /* the executor does not execute it; `output` is one of the reasons below */
};

/* Why an attempt is refused; each has a text task_refused_<reason>. */
#define WIRE_FILES      "files"      /* they are others than those that the runner means */
#define WIRE_UNSIGNED   "unsigned"   /* the executor has a key, the specification no signature */
#define WIRE_SIGNATURE  "signature"  /* it was signed with another key, for another attempt, or changed */
#define WIRE_UNREADABLE "unreadable" /* it is none */

struct wire_result {
    enum wire_end end;
    int status;
    bool has_timed_out;
    int64_t ms; /* how long it ran */
    const char *output;
    size_t output_len;
    bool is_output_too_large;
};

void wire_put_spec(struct buf *b, const struct wire_spec *spec);
/* Returns -1 if it is malformed, 1 if it has another version. */
int wire_read_spec(struct parcel p, struct buf *env, struct wire_spec *ret);
void wire_put_result(struct buf *b, const struct wire_result *result);
int wire_read_result(struct parcel p, struct wire_result *ret);

#endif
