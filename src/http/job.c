/* job.c - operations in worker threads. A job belongs to the loop, except between job_start and its place in `done`; what both
 * touch is under the server's mutex. */
#include "base/clock.h"
#include "http/internal.h"
#include "own/who.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOB_CANCEL_MS = 50, EVICTED = 8 };

void http_wake(struct http_server *server)
{
    uint64_t one = 1;
    (void)!write(server->wake.fd, &one, sizeof one);
}

/* ---- in the loop ---- */

struct http_job *job_new(struct http_server *server, struct http_conn *conn, void (*run)(struct http_job *))
{
    struct http_job *job = memory_zeroed(1, sizeof *job);
    *job = (struct http_job){.server = server,
                             .conn = conn,
                             .run = run,
                             .lang = server->lang,
                             .status = 500,
                             .type = "application/json",
                             .body = BUF_INIT,
                             .question = BUF_INIT};
    return job;
}

static void job_free(struct http_job *job)
{
    json_decref(job->args);
    buf_clear(&job->body);
    buf_clear(&job->question);
    caller_clear(&job->caller);
    free(job);
}

void job_cancel(struct http_job *job)
{
    atomic_store(&job->is_cancelled, true);
    pthread_mutex_lock(&job->server->mutex);
    if (job->has_worker && job->may_signal)
        pthread_kill(job->worker, SIGINT);
    pthread_mutex_unlock(&job->server->mutex);
}

int job_cancel_again(struct http_server *server, int64_t now_ms)
{
    bool is_due = now_ms - server->cancelled_ms >= JOB_CANCEL_MS, has_some = false;
    for (struct http_job *job = server->jobs; job; job = job->next) {
        if (!atomic_load(&job->is_cancelled))
            continue;
        has_some = true;
        if (is_due)
            job_cancel(job);
    }
    if (is_due)
        server->cancelled_ms = now_ms;
    return has_some ? JOB_CANCEL_MS : -1;
}

static void client_gone(struct http_conn *conn)
{
    struct http_job *job = conn->work_data;
    job->conn = NULL;
    job_cancel(job);
}

static void client_hung_up(struct http_conn *conn)
{
    job_cancel(conn->work_data);
}

static const struct http_work waiting = {.gone = client_gone, .hung_up = client_hung_up};

static void job_finish(struct http_job *job)
{
    struct http_server *server = job->server;
    *(job->prev ? &job->prev->next : &server->jobs) = job->next;
    if (job->next)
        job->next->prev = job->prev;
    for (int i = 0; i < EVICTED && job->is_short && room_take(server); i++) /* R5 */
        ;
    if (job->done)
        job->done(job);
    else if (job->conn && server->is_ending && job->is_unmet && atomic_load(&job->is_cancelled))
        conn_refuse(job->conn, 503, TSK_ENVIRONMENT, "http_ending"); /* it was us who did not wait any longer */
    else if (job->conn && job->conn->is_half_closed && job->is_unmet && atomic_load(&job->is_cancelled))
        conn_refuse(job->conn, 409, TSK_CONFLICT, "http_hung_up");
    else if (job->conn)
        conn_answer(job->conn, job->status, job->type, NULL, job->body.data, job->body.len);
    job_free(job);
}

void job_finish_all(struct http_server *server)
{
    pthread_mutex_lock(&server->mutex);
    struct http_job *job = server->done, *next;
    server->done = NULL;
    server->is_woken = false;
    pthread_mutex_unlock(&server->mutex);
    for (; job; job = next) {
        next = job->next_done;
        job_finish(job);
    }
}

/* ---- in a worker ---- */

static void job_work(void *arg)
{
    struct http_job *job = arg;
    struct http_server *server = job->server;
    pthread_mutex_lock(&server->mutex);
    job->worker = pthread_self();
    job->has_worker = true;
    pthread_mutex_unlock(&server->mutex);
    job->run(job);
    pthread_mutex_lock(&server->mutex);
    job->has_worker = false;
    job->next_done = server->done;
    server->done = job;
    bool wakes = !server->is_woken;
    server->is_woken = true;
    pthread_mutex_unlock(&server->mutex);
    if (wakes)
        http_wake(server);
}

void job_start(struct http_job *job)
{
    struct http_server *server = job->server;
    job->next = server->jobs;
    if (job->next)
        job->next->prev = job;
    server->jobs = job;
    if (job->conn)
        conn_wait(job->conn, &waiting, job);
    pool_submit(server->pool, job_work, job);
}

static bool job_is_cancelled(struct op_call *call)
{
    struct http_job *job = call->skin;
    return atomic_load(&job->is_cancelled);
}

/* Over HTTP a person's yes is `{"confirm": true}`. */
static bool job_confirm(struct op_call *call, const char *question)
{
    struct http_job *job = call->skin;
    job->has_asked = !job->says_yes;
    job->has_force = call->has_force;
    buf_reset(&job->question);
    buf_puts(&job->question, question);
    return job->says_yes;
}

/* A call that a person must confirm has one code, as on the command line and over MCP. */
static void put_needs_yes(struct http_job *job, struct tsk_error *err)
{
    char *keys = strstr(job->question.data, " [y/N]"); /* a terminal's */
    if (keys) {
        job->question.len = (size_t)(keys - job->question.data);
        *keys = '\0';
    }
    err->code = TSK_NEEDS_CONFIRMATION;
    err->text = "http_needs_yes";
    error_clear_next(err);
    error_add(err, "question", buf_str(&job->question));
}

static void may_signal(struct http_job *job, bool may)
{
    pthread_mutex_lock(&job->server->mutex);
    job->may_signal = may;
    pthread_mutex_unlock(&job->server->mutex);
}

/* A caller that was verified, or somebody who has the server's token. */
static void enter_who(struct http_job *job)
{
    struct who who;
    const char *instance = json_get_string(job->args, "instance", job->caller.instance);
    who_of_client(job->server->ws, instance ? instance : "", "http", false,
                  job->op->flags & (OP_READ_ONLY | OP_QUESTION) ? NULL : job->op->name, &who);
    who_enter(&who);
}

void job_run_op(struct http_job *job)
{
    struct tsk_error err = {0};
    json_t *answer CLEANUP_JSON = NULL;
    struct op_call call = {.op = job->op,
                           .args = job->args,
                           .ws = job->op->flags & OP_NO_WORKSPACE ? NULL : job->server->ws,
                           .root = job->server->root,
                           .lang = job->lang,
                           .is_remote = true,
                           .is_written = true,
                           .home = job->server->ws,
                           .confirm = job_confirm,
                           .is_cancelled = job_is_cancelled,
                           .skin = job};
    int result = op_verify_caller(job->server->ws, json_get_string(job->args, "instance", job->caller.instance),
                                  job->caller.secret, &err);
    if (result == 0) {
        may_signal(job, job->op->flags & OP_INTERRUPTIBLE);
        enter_who(job);
        result = op_run(&call, &answer, &err);
        who_enter(NULL);
        may_signal(job, false);
    }
    json_decref(call.aside);
    if (job->has_asked && !job->has_force && result < 0 && err.code != TSK_INTERNAL)
        put_needs_yes(job, &err);
    enum tsk_code code = result < 0 ? err.code : call.verdict;
    if (result < 0) {
        json_decref(answer);
        answer = json_of_error(&err, lang_name(job->lang));
    } else if (!answer) {
        answer = json_object();
    }
    job->is_short = result < 0 && (err.sys_errno == EMFILE || err.sys_errno == ENFILE);
    job->is_unmet = code == TSK_CONFLICT && (job->op->flags & OP_WAITS);
    if (job->has_asked && code != TSK_OK)
        json_object_set_new(answer, "needs_confirmation", json_true());
    job->status = code != TSK_OK ? code_info(code)->http_status : call.goes_on ? 202 : 200;
    json_write(&job->body, answer, false);
    buf_puts(&job->body, "\n");
}
