#include "mcp/task.h"
#include "base/clock.h"
#include "base/listing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TASK         "task-"
#define TTL_MS       3600000
#define TASK_POLL_MS 1000
#define FILE_MAX     (4u << 20)

struct mcp_task {
    struct mcp_link *link;
    char id[40];
    json_t *record;  /* of the link's mutex, like `answers` */
    json_t *answers; /* id -> response, while questions are open */
    bool is_over;    /* cancelled or completed: nothing changes it any more */
};

static const char *const over[] = {"completed", "failed", "cancelled"};

static bool task_is_over(const json_t *record)
{
    const char *status = json_get_string(record, "status", "");
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++)
        if (strcmp(status, over[i]) == 0)
            return true;
    return false;
}

/* ---- the file ---- */

static int open_task_folder(struct mcp_server *server)
{
    struct tsk_workspace *ws = mcp_server_workspace(server);
    errno = ENOENT;
    return ws ? fs_open_made_dir(ws->state_dir, MCP_FOLDER) : -1;
}

static int task_save(struct mcp_server *server, const char *id, const json_t *record)
{
    char name[64];
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    int dir CLEANUP_FD = open_task_folder(server);
    snprintf(name, sizeof name, "%s.json", id);
    json_write(&b, record, false);
    return dir < 0 || b.failed ? -1 : fs_replace_file(dir, name, 0600, b.data, b.len);
}

/* The thread that works on it is gone with its process. */
static bool is_orphan(const json_t *record)
{
    const json_t *owner = json_object_get(record, "owner");
    struct proc_id id = {.pid = (pid_t)json_get_int(owner, "pid", 0),
                         .start_ticks = (uint64_t)json_get_int(owner, "start_ticks", 0),
                         .pid_ns = (uint64_t)json_get_int(owner, "pid_ns", 0)};
    snprintf(id.boot_id, sizeof id.boot_id, "%s", json_get_string(owner, "boot_id", ""));
    return proc_id_liveness(&id) == LIVE_DEAD;
}

static json_t *task_unknown(struct mcp_fault *fault)
{
    return mcp_fault(fault, MCP_INVALID_PARAMS, "There is no task with this taskId");
}

/* A record that cannot be read is not a task that does not exist: the client must not begin the work again. */
static json_t *task_load(struct mcp_server *server, const char *id, struct mcp_fault *fault)
{
    char name[64];
    struct buf b CLEANUP(buf_clear) = BUF_INIT, reason CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error problem;
    json_t *record = NULL;
    if (!id_is_valid(id) || strlen(id) > 40)
        return task_unknown(fault);
    int dir CLEANUP_FD = open_task_folder(server);
    snprintf(name, sizeof name, "%s.json", id);
    if (dir < 0 || fs_read_file(dir, name, FILE_MAX, &b) < 0)
        return errno == ENOENT
                   ? task_unknown(fault)
                   : mcp_fault(fault, MCP_INTERNAL, "The record of the task cannot be read: %s", strerror(errno));
    if (json_parse(buf_str(&b), b.len, name, &record, &problem) < 0) {
        text_put_error(&reason, LANG_EN, &problem);
        return mcp_fault(fault, MCP_INTERNAL, "The record of the task cannot be read: %s", buf_str(&reason));
    }
    if (!task_is_over(record) && is_orphan(record)) {
        json_object_set_new(record, "status", json_string("failed"));
        json_object_del(record, "inputRequests");
        json_object_set_new(
            record, "error",
            json_pack("{s:i, s:s}", "code", MCP_INTERNAL, "message", "The server that worked on this task has ended"));
    }
    return record;
}

/* Whether somebody works on it, however long ago it began. */
static bool is_alive(int dir, const char *name)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error ignored;
    json_t *record CLEANUP_JSON = NULL;
    return fs_read_file(dir, name, FILE_MAX, &b) == 0 && json_parse(buf_str(&b), b.len, name, &record, &ignored) == 0 &&
           !task_is_over(record) && !is_orphan(record);
}

/* What is older than its time is removed when a new one is made. */
static void sweep_tasks(int dir)
{
    struct listing names CLEANUP(listing_close);
    int64_t now_s = clock_now().wall_ms / 1000;
    listing_open(&names, dir, ".", 0);
    for (const char *name; (name = listing_next(&names));) {
        struct stat st;
        if (strncmp(name, TASK, strlen(TASK)) == 0 && fs->fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            now_s - st.st_mtim.tv_sec > TTL_MS / 1000 && !is_alive(dir, name))
            fs->unlinkat(dir, name, 0);
    }
}

/* ---- the wire ---- */

/* As the client sees it: without what is ours. */
static json_t *task_shown(const json_t *record)
{
    json_t *task = json_deep_copy(record);
    json_object_del(task, "owner");
    return task;
}

/* With the link's mutex held. */
static void task_change(struct mcp_task *task, const char *status)
{
    const char *time = TIME_EXACT(clock_now().wall_ms);
    json_object_set_new(task->record, "status", json_string(status));
    json_object_set_new(task->record, "lastUpdatedAt", json_string(time));
    task_save(task->link->server, task->id, task->record);
}

static void task_announce(struct mcp_server *server, const char *id, json_t *task_take)
{
    mcp_listen_task(server, id, task_take);
    json_decref(task_take);
}

static json_t *new_record(const char *id)
{
    struct proc_id self;
    const char *time = TIME_EXACT(clock_now().wall_ms);
    if (proc_id_of(getpid(), &self) < 0)
        return NULL;
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:{s:i, s:I, s:I, s:s}}", "taskId", id, "status", "working",
                     "createdAt", time, "lastUpdatedAt", time, "ttlMs", TTL_MS, "pollIntervalMs", TASK_POLL_MS, "owner",
                     "pid", (int)self.pid, "start_ticks", (json_int_t)self.start_ticks, "pid_ns",
                     (json_int_t)self.pid_ns, "boot_id", self.boot_id);
}

/* ---- life ---- */

bool task_begin(struct mcp_request *request)
{
    struct mcp_link *link = request->link;
    struct mcp_task *task = calloc(1, sizeof *task);
    struct mcp_fault none = {0};
    BUG(!task);
    task->link = link;
    memcpy(task->id, TASK, strlen(TASK));
    random_hex(task->id + strlen(TASK), 32);
    task->record = new_record(task->id);
    int dir CLEANUP_FD = open_task_folder(link->server);
    if (dir >= 0)
        sweep_tasks(dir);
    bool is_kept = dir >= 0 && task->record && task_save(link->server, task->id, task->record) == 0;
    pthread_mutex_lock(&link->mutex);
    bool is_late = request->is_answered || request->has_no_task;
    request->has_no_task = request->has_no_task || !is_kept;
    if (is_kept && !is_late) { /* M4: both at once */
        request->task = task;
        request->is_answered = true;
    }
    json_t *result = task_shown(task->record);
    pthread_mutex_unlock(&link->mutex);
    if (!is_kept || is_late) {
        json_decref(result);
        task_drop(task);
        return false;
    }
    json_object_set_new(result, "resultType", json_string("task"));
    mcp_request_answer(request, result, &none);
    return true;
}

void task_end(struct mcp_task *task, const json_t *result, const struct mcp_fault *fault)
{
    pthread_mutex_lock(&task->link->mutex);
    bool is_mine = !task->is_over;
    task->is_over = true;
    if (is_mine && result) {
        json_t *kept = json_deep_copy(result);
        json_object_set_new(kept, "resultType", json_string("complete"));
        json_object_set_new(task->record, "result", kept);
        task_change(task, "completed");
    } else if (is_mine) {
        json_object_set_new(task->record, "error",
                            json_pack("{s:i, s:s}", "code", fault->code, "message", fault->message));
        task_change(task, "failed");
    }
    json_t *news = task_shown(task->record);
    pthread_mutex_unlock(&task->link->mutex);
    task_announce(task->link->server, task->id, news);
}

json_t *task_ask(struct mcp_request *request, json_t *questions_take)
{
    struct mcp_task *task = request->task;
    struct mcp_link *link = request->link;
    pthread_mutex_lock(&link->mutex);
    json_object_set_new(task->record, "inputRequests", questions_take);
    task->answers = json_object();
    task_change(task, "input_required");
    json_t *news = task_shown(task->record);
    pthread_mutex_unlock(&link->mutex);
    task_announce(link->server, task->id, news);
    pthread_mutex_lock(&link->mutex);
    struct timespec end = clock_deadline(CLOCK_MONOTONIC, TTL_MS);
    for (int result = 0; result == 0 && !task->is_over && !link->is_ended &&
                         json_object_size(json_object_get(task->record, "inputRequests"));)
        result = pthread_cond_timedwait(&link->changed, &link->mutex, &end);
    json_t *answers = task->answers;
    task->answers = NULL;
    bool is_answered = !task->is_over && !link->is_ended;
    if (is_answered) {
        json_object_del(task->record, "inputRequests");
        task_change(task, "working");
    }
    pthread_mutex_unlock(&link->mutex);
    if (!is_answered)
        json_free(&answers);
    return answers;
}

void task_drop(struct mcp_task *task)
{
    if (!task)
        return;
    json_decref(task->record);
    json_decref(task->answers);
    free(task);
}

/* ---- methods ---- */

json_t *mcp_tasks_get(struct mcp_request *request, struct mcp_fault *fault)
{
    json_t *record CLEANUP_JSON =
        task_load(request->link->server, json_get_string(request->params, "taskId", ""), fault);
    return record ? task_shown(record) : NULL;
}

/* The request whose task it is, on any link of this server; with that link's mutex held. */
static struct mcp_request *find_running(struct mcp_server *server, const char *id)
{
    pthread_mutex_lock(&server->mutex);
    for (struct mcp_link *link = server->links; link; link = link->next) {
        pthread_mutex_lock(&link->mutex);
        for (struct mcp_request *request = link->running; request; request = request->next)
            if (request->task && strcmp(request->task->id, id) == 0) {
                pthread_mutex_unlock(&server->mutex);
                return request;
            }
        pthread_mutex_unlock(&link->mutex);
    }
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}

/* Of a task whose server is another one: only that can take answers. */
static json_t *not_here(const json_t *record, struct mcp_fault *fault)
{
    return mcp_fault(fault, MCP_INVALID_PARAMS,
                     "Another server works on this task (pid %lld); its answers must go there",
                     (long long)json_get_int(json_object_get(record, "owner"), "pid", 0));
}

static void take_answers(struct mcp_task *task, const json_t *responses)
{
    json_t *open = json_object_get(task->record, "inputRequests");
    json_each_pair (responses, key, value)
        if (json_object_get(open, key)) {
            json_object_set_new(task->answers, key, json_deep_copy(value)); /* references are not for two threads */
            json_object_del(open, key);
        }
    task_change(task, json_object_size(open) ? "input_required" : "working");
}

json_t *mcp_tasks_update(struct mcp_request *request, struct mcp_fault *fault)
{
    const char *id = json_get_string(request->params, "taskId", "");
    const json_t *responses = json_object_get(request->params, "inputResponses");
    json_t *record CLEANUP_JSON = task_load(request->link->server, id, fault);
    if (!record)
        return NULL;
    if (!json_is_object(responses))
        return mcp_fault(fault, MCP_INVALID_PARAMS, "tasks/update needs inputResponses");
    struct mcp_request *running = find_running(request->link->server, id);
    if (running) {
        if (running->task->answers)
            take_answers(running->task, responses);
        pthread_cond_broadcast(&running->link->changed);
        pthread_mutex_unlock(&running->link->mutex);
    }
    return running || task_is_over(record) ? json_object() : not_here(record, fault);
}

/* With the link's mutex held: the work ends as soon as it notices; the task is over now. */
static json_t *task_cancel(struct mcp_request *running)
{
    struct mcp_task *task = running->task;
    running->is_cancelled = true;
    mcp_request_signal(running);
    pthread_cond_broadcast(&running->link->changed);
    if (task->is_over)
        return NULL;
    task->is_over = true;
    json_object_del(task->record, "inputRequests");
    task_change(task, "cancelled");
    return task_shown(task->record);
}

static void mark_name(const char *id, char name[64])
{
    snprintf(name, 64, MCP_FOLDER "/%s.cancel", id);
}

void task_look(struct mcp_request *request)
{
    char name[64];
    struct tsk_workspace *ws = mcp_server_workspace(request->link->server);
    mark_name(request->task->id, name);
    if (ws && !request->task->is_over && fs->unlinkat(ws->state_dir, name, 0) == 0)
        json_decref(task_cancel(request));
}

/* For the server that works on it: it looks every second. */
static json_t *leave_mark(struct mcp_server *server, const char *id, struct mcp_fault *fault)
{
    char name[64];
    struct tsk_workspace *ws = mcp_server_workspace(server);
    mark_name(id, name);
    int fd CLEANUP_FD = ws ? fs->openat(ws->state_dir, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    return fd < 0 ? mcp_fault(fault, MCP_INTERNAL, "The task cannot be cancelled from here") : json_object();
}

json_t *mcp_tasks_cancel(struct mcp_request *request, struct mcp_fault *fault)
{
    const char *id = json_get_string(request->params, "taskId", "");
    json_t *record CLEANUP_JSON = task_load(request->link->server, id, fault);
    if (!record)
        return NULL;
    struct mcp_request *running = find_running(request->link->server, id);
    if (!running)
        return task_is_over(record) ? json_object() : leave_mark(request->link->server, id, fault);
    pthread_mutex_t *mutex = &running->link->mutex;
    json_t *news = task_cancel(running);
    pthread_mutex_unlock(mutex); /* the link may be gone from here on */
    if (news)
        task_announce(request->link->server, id, news);
    return json_object();
}
