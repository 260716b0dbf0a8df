/* Tasks and the connections that began them: what may be gone by the time that somebody looks. And who listens: what
 * may have happened by then. And the card of the agent, which another thread may exchange. */
#include "mcp/internal.h"
#include "mcp/signals.h"
#include "own/instance.h"
#include "unit/scene.h"

#include <malloc.h>
#include <time.h>

static struct mcp_link *_Atomic beginner; /* the link whose task is cancelled; NULL: freed */

/* ---- frames ---- */

struct inbox {
    pthread_mutex_t mutex;
    json_t *last;
};
static struct inbox inbox = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void keep(void *data, const struct mcp_frame *frame)
{
    struct tsk_error err;
    json_t *message = NULL;
    (void)data;
    ASSERT_OK(json_parse(frame->text, frame->len, "frame", &message, &err));
    pthread_mutex_lock(&inbox.mutex);
    json_decref(inbox.last);
    inbox.last = message;
    pthread_mutex_unlock(&inbox.mutex);
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* The result of the only request that is open; the clock runs for it. */
static json_t *result_of(struct mcp_link *link)
{
    for (int left = SCENE_DEADLINE_MS; left > 0; left--, pause_briefly()) {
        pthread_mutex_lock(&inbox.mutex);
        json_t *message = inbox.last;
        inbox.last = NULL;
        pthread_mutex_unlock(&inbox.mutex);
        json_t *result = json_incref(json_object_get(message, "result"));
        json_decref(message);
        if (result)
            return result;
        mcp_link_tick(link);
    }
    test_fail(__FILE__, __LINE__, "no answer");
}

static json_t *ask(struct mcp_link *link, const char *method, json_t *params_take)
{
    json_object_set_new(params_take, "_meta",
                        json_pack("{s:s, s:{s:{s:{}}}}", MCP_META "protocolVersion", MCP_MODERN,
                                  MCP_META "clientCapabilities", "extensions", MCP_TASKS));
    mcp_link_take_json(
        link, 1, json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", 1, "method", method, "params", params_take));
    return result_of(link);
}

/* ---- the moment ---- */

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

/* As fast as it can be: the worker has ended and its connection is freed before the canceller continues. */
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct mcp_link *link = beginner;
    bool is_moment = link && mutex == &link->mutex && link->running && link->running->is_cancelled;
    if (is_moment)
        beginner = NULL;
    int result = __real_pthread_mutex_unlock(mutex);
    for (int left = SCENE_DEADLINE_MS; is_moment && !mcp_link_is_idle(link); left--, pause_briefly()) {
        ASSERT(left > 0);
        mcp_link_tick(link);
    }
    if (is_moment)
        mcp_link_free(link);
    return result;
}

static struct now later(void)
{
    struct now now = clock_system_calls.now();
    now.boot_ms += 5000;
    return now;
}

TEST(who_cancels_a_task_does_not_touch_the_connection_that_began_it)
{
    struct tsk_error err;
    struct mcp_server *server = NULL;
    mallopt(M_PERTURB, 0x55); /* what is freed cannot be used by mistake */
    tsk_workspace_close(scene_open());
    signals_take(-1, false);
    ASSERT_OK(mcp_server_new(&(struct mcp_options){.root = ".", .lang = LANG_EN, .is_shared = true, .is_told = true},
                             &server, &err));
    struct mcp_link *other = mcp_link_new(server, keep, NULL), *first = mcp_link_new(server, keep, NULL);
    json_decref(ask(other, "tools/call",
                    json_pack("{s:s, s:{s:s, s:s, s:i}}", "name", "lock_acquire", "arguments", "kind", "name", "id",
                              "a", "pid", (int)getpid())));
    static const struct clock_calls calls = {.now = later};
    clock_source = &calls; /* the call has taken long at once */
    json_t *task CLEANUP_JSON =
        ask(first, "tools/call",
            json_pack("{s:s, s:{s:s, s:s}}", "name", "wait_for", "arguments", "kind", "lock", "id", "a"));
    const char *id = json_get_string(task, "taskId", "");
    ASSERT_STR(json_get_string(task, "resultType", ""), "task");
    beginner = first;
    json_t *answer CLEANUP_JSON = ask(other, "tasks/cancel", json_pack("{s:s}", "taskId", id));
    ASSERT_STR(json_get_string(answer, "resultType", ""), "complete");
    ASSERT(!beginner);
    json_t *now CLEANUP_JSON = ask(other, "tasks/get", json_pack("{s:s}", "taskId", id));
    ASSERT_STR(json_get_string(now, "status", ""), "cancelled");
    mcp_link_end(other, SCENE_DEADLINE_MS);
    mcp_link_free(other);
    mcp_server_free(server);
}

/* ---- listening ---- */

/* As fast as a client can be: it has read the acknowledgement and acted before its sender continues. */
static void act_when_acknowledged(void *data, const struct mcp_frame *frame)
{
    struct tsk_error err;
    struct now now = clock_now();
    struct event event = {.type = "lock.acquired", .data = "{\"kind\":\"name\",\"id\":\"a\"}"};
    keep(NULL, frame);
    if (strcmp(json_get_string(inbox.last, "method", ""), "notifications/subscriptions/acknowledged") == 0)
        ASSERT_OK(workspace_event(data, &now, &event, &err));
}

TEST(what_a_client_does_as_soon_as_it_is_listening_is_news)
{
    struct tsk_error err;
    struct mcp_server *server = NULL;
    struct tsk_workspace *ws = scene_open();
    ASSERT_OK(mcp_server_new(&(struct mcp_options){.root = ".", .lang = LANG_EN, .is_shared = true, .is_told = true},
                             &server, &err));
    struct mcp_link *link = mcp_link_new(server, act_when_acknowledged, ws);
    mcp_link_take_json(link, 1,
                       json_pack("{s:s, s:i, s:s, s:{s:{s:[s]}, s:{s:s, s:{}}}}", "jsonrpc", "2.0", "id", 1, "method",
                                 "subscriptions/listen", "params", "notifications", "resourceSubscriptions",
                                 "tasuki://lock/name/a", "_meta", MCP_META "protocolVersion", MCP_MODERN,
                                 MCP_META "clientCapabilities"));
    mcp_link_tick(link);
    ASSERT_STR(json_get_string(inbox.last, "method", ""), "notifications/resources/updated");
    mcp_link_end(link, SCENE_DEADLINE_MS);
    mcp_link_free(link);
    mcp_server_free(server);
    tsk_workspace_close(ws);
}

/* ---- cards ---- */

static struct mcp_server *card_server;
static int cards_written;

/* Another call in a newer workspace puts another file behind the card's descriptor, and it needs the mutex for this. */
static ssize_t pwrite_card(int fd, const void *data, size_t len, off_t offset)
{
    if (fd == card_server->card) {
        ASSERT_INT(pthread_mutex_trylock(&card_server->mutex), EBUSY);
        cards_written++;
    }
    return fs_system_calls.pwrite(fd, data, len, offset);
}

static bool identify_self(void *data, char *ret_instance, size_t size)
{
    struct tsk_error err;
    struct proc_id self;
    struct instance instance;
    ASSERT_INT(proc_id_of(getpid(), &self), 0);
    ASSERT_OK(instance_register(data, &self, &instance, &err));
    snprintf(ret_instance, size, "%s", instance.id);
    return false;
}

TEST(while_a_call_is_noted_on_the_agents_card_nobody_exchanges_the_card)
{
    struct tsk_error err;
    struct fs_calls calls = fs_system_calls;
    struct tsk_workspace *ws = scene_open();
    signals_take(-1, false);
    calls.pwrite = pwrite_card;
    ASSERT_OK(mcp_server_new(
        &(struct mcp_options){
            .root = ".", .lang = LANG_EN, .is_told = true, .identify = identify_self, .identify_data = ws},
        &card_server, &err));
    fs = &calls;
    struct mcp_link *link = mcp_link_new(card_server, keep, NULL);
    json_decref(ask(link, "tools/call",
                    json_pack("{s:s, s:{s:s, s:s}}", "name", "lock_acquire", "arguments", "kind", "name", "id", "a")));
    ASSERT_INT(cards_written, 1);
    mcp_link_end(link, SCENE_DEADLINE_MS);
    mcp_link_free(link);
    mcp_server_free(card_server);
    fs = &fs_system_calls;
    tsk_workspace_close(ws);
}
