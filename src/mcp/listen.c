/* listen.c - news for those who asked: resources by the event trail, tasks, and (for the suite) changed lists. */
#include "base/fs.h"
#include "base/log.h"
#include "mcp/internal.h"
#include "mcp/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define LOOK_EVERY_MS 1000

static void listen_free(struct mcp_listen *listen)
{
    json_decref(listen->id);
    json_decref(listen->uris);
    json_decref(listen->task_ids);
    free(listen);
}

static void stop_watching(struct mcp_link *link)
{
    if (link->has_reader)
        event_reader_clear(&link->reader);
    link->has_reader = false;
    link->watched = NULL;
    fs_close(&link->watch_fd);
}

/* With the mutex held. News begin with the first subscription; in a workspace that was made again, with its beginning. */
static void start_watching(struct mcp_link *link)
{
    const struct tsk_workspace *ws = mcp_server_workspace(link->server);
    struct tsk_error problem;
    if (!ws || link->watched == ws)
        return;
    bool is_anew = link->watched != NULL;
    stop_watching(link);
    if (!link->server->options.is_told)
        link->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (link->watch_fd >= 0)
        inotify_add_watch(link->watch_fd, ws->state_path, IN_MODIFY | IN_MOVED_TO | IN_CREATE);
    link->has_reader = event_reader_init(&link->reader, ws->state_dir, is_anew ? 0 : EVENT_FROM_END, &problem) == 0;
    if (!link->has_reader)
        log_problem(&problem);
    link->watched = ws;
}

static void listen_add(struct mcp_link *link, struct mcp_listen *listen)
{
    start_watching(link);
    listen->next = link->listens;
    link->listens = listen;
}

static json_t *tagged_params(const struct mcp_listen *listen, json_t *params_take)
{
    if (listen->id)
        json_object_set_new(params_take, "_meta", json_pack("{s:O}", MCP_META "subscriptionId", listen->id));
    return params_take;
}

static json_t *keys_of(json_t *set)
{
    json_t *list = json_array();
    json_each_key (set, key)
        json_array_append_new(list, json_string(key));
    return list;
}

/* ---- legacy ---- */

/* With the mutex held. */
static struct mcp_listen *legacy_listen(struct mcp_link *link)
{
    struct mcp_listen *listen = link->listens;
    while (listen && listen->id)
        listen = listen->next;
    if (listen)
        return listen;
    listen = memory_zeroed(1, sizeof *listen);
    listen->uris = json_object();
    listen_add(link, listen);
    return listen;
}

static json_t *change_subscription(struct mcp_request *request, bool wants, struct mcp_fault *fault)
{
    struct mcp_link *link = request->link;
    const char *uri = json_get_string(request->params, "uri", NULL);
    if (!uri)
        return mcp_fault(fault, MCP_INVALID_PARAMS, "A subscription needs a uri");
    if (wants && !mcp_resource_has_news(link->server, uri))
        return mcp_fault(fault, MCP_RESOURCE_NOT_FOUND,
                         "There is no such resource, or it tells no news (or there is no workspace yet: tasuki init)");
    pthread_mutex_lock(&link->mutex);
    struct mcp_listen *listen = legacy_listen(link);
    if (wants)
        json_object_set_new(listen->uris, uri, json_true());
    else
        json_object_del(listen->uris, uri);
    pthread_mutex_unlock(&link->mutex);
    return json_object();
}

json_t *mcp_subscribe(struct mcp_request *request, struct mcp_fault *fault)
{
    return change_subscription(request, true, fault);
}

json_t *mcp_unsubscribe(struct mcp_request *request, struct mcp_fault *fault)
{
    return change_subscription(request, false, fault);
}

json_t *mcp_listen_uris(struct mcp_link *link)
{
    const struct mcp_listen *listen = link->listens;
    while (listen && listen->id)
        listen = listen->next;
    return listen ? keys_of(listen->uris) : json_array();
}

void mcp_listen_restore(struct mcp_link *link, const json_t *uris)
{
    json_each (uris, i, uri)
        if (json_is_string(uri))
            json_object_set_new(legacy_listen(link)->uris, json_string_value(uri), json_true());
}

/* ---- modern ---- */

/* The strings of a list as keys; what the server does not know is not honoured. */
static json_t *string_set(const json_t *strings, struct mcp_server *server)
{
    json_t *set = json_object();
    json_each (strings, i, item)
        if (json_is_string(item) && (!server || mcp_resource_has_news(server, json_string_value(item))))
            json_object_set_new(set, json_string_value(item), json_true());
    return set;
}

static json_t *honoured_filters(const struct mcp_listen *listen)
{
    json_t *filter = json_object();
    if (listen->tools)
        json_object_set_new(filter, "toolsListChanged", json_true());
    if (listen->prompts)
        json_object_set_new(filter, "promptsListChanged", json_true());
    if (json_object_size(listen->uris))
        json_object_set_new(filter, "resourceSubscriptions", keys_of(listen->uris));
    if (json_object_size(listen->task_ids))
        json_object_set_new(filter, "taskIds", keys_of(listen->task_ids));
    return filter;
}

json_t *mcp_listen(struct mcp_request *request, struct mcp_fault *fault)
{
    struct mcp_link *link = request->link;
    const json_t *filter = json_object_get(request->params, "notifications");
    bool has_changes = mcp_extra != NULL;
    if (!json_is_object(filter))
        return mcp_fault(fault, MCP_INVALID_PARAMS, "subscriptions/listen needs notifications");
    struct mcp_listen *listen = memory_zeroed(1, sizeof *listen);
    *listen = (struct mcp_listen){
        .id = json_deep_copy(request->id),
        .about = request->about,
        .tools = has_changes && json_get_bool(filter, "toolsListChanged", false),
        .prompts = has_changes && json_get_bool(filter, "promptsListChanged", false),
        .uris = string_set(json_object_get(filter, "resourceSubscriptions"), link->server),
        .task_ids = string_set(mcp_client_has_tasks(request) ? json_object_get(filter, "taskIds") : NULL, NULL)};
    /* First the acknowledgement: nothing can be sent for it before it is on the list. And before that the place in the
     * trail: what the client does as soon as it has read the acknowledgement is news for it. */
    pthread_mutex_lock(&link->mutex);
    start_watching(link);
    mcp_link_notify(link, listen->about, "notifications/subscriptions/acknowledged",
                    tagged_params(listen, json_pack("{s:o}", "notifications", honoured_filters(listen))));
    listen_add(link, listen);
    pthread_mutex_unlock(&link->mutex);
    return NULL; /* the answer is its end */
}

bool mcp_listen_cancel(struct mcp_link *link, const json_t *id)
{
    struct mcp_listen **at, *found;
    pthread_mutex_lock(&link->mutex);
    for (at = &link->listens; *at && !((*at)->id && json_equal((*at)->id, id)); at = &(*at)->next)
        ;
    found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&link->mutex);
    if (found)
        listen_free(found);
    return found != NULL;
}

static void say_end(struct mcp_link *link, const struct mcp_listen *listen)
{
    static const struct mcp_method method = {.name = "subscriptions/listen", .flags = MCP_IN_MODERN};
    struct mcp_request request = {
        .link = link, .about = listen->about, .id = listen->id, .method = &method, .is_modern = true};
    struct mcp_fault none = {0};
    mcp_request_answer(&request, tagged_params(listen, json_object()), &none);
}

void mcp_listen_clear(struct mcp_link *link, bool say_so)
{
    pthread_mutex_lock(&link->mutex);
    struct mcp_listen *listen = link->listens, *next;
    link->listens = NULL;
    stop_watching(link);
    pthread_mutex_unlock(&link->mutex);
    for (; listen; listen = next) {
        next = listen->next;
        if (say_so && listen->id)
            say_end(link, listen);
        listen_free(listen);
    }
}

/* ---- news ---- */

/* A message for one listener: what it is about, and its params. */
static void add_message(json_t *messages, const struct mcp_listen *listen, json_t *params_take)
{
    json_array_append_new(messages, json_pack("{s:I, s:o}", "about", (json_int_t)listen->about, "params",
                                              tagged_params(listen, params_take)));
}

static void send_messages(struct mcp_link *link, const char *method, const json_t *messages)
{
    json_each (messages, i, item)
        mcp_link_notify(link, (uint64_t)json_get_int(item, "about", 0), method,
                        json_incref(json_object_get(item, "params")));
}

/* With the mutex held: the messages to send. */
static void collect_changes(const struct mcp_link *link, json_t *uris, json_t *messages)
{
    json_each_key (uris, uri)
        for (const struct mcp_listen *listen = link->listens; listen; listen = listen->next)
            if (json_object_get(listen->uris, uri))
                add_message(messages, listen, json_pack("{s:s}", "uri", uri));
}

/* What processes did becomes events when somebody looks; while somebody listens that is us, in a worker. */
static void listen_look(void *arg)
{
    struct mcp_link *link = arg;
    struct tsk_error ignored;
    json_decref(mcp_run_op(link->server, "process.list", json_object(), &ignored));
    pthread_mutex_lock(&link->mutex);
    link->is_looking = false;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->mutex);
}

/* With the mutex held: adds the resources that changed. A trail that cannot be read may hide any change: then all count as
 * changed, once, and the client that reads one of them sees the reason. */
static void read_changes(struct mcp_link *link, json_t *uris)
{
    struct tsk_error problem;
    json_t *event;
    int result;
    while ((result = event_read(&link->reader, &event, &problem)) == 1) {
        json_t *changed CLEANUP_JSON = mcp_resources_of_event(event);
        json_each (changed, i, item)
            json_object_set_new(uris, json_string_value(item), json_true());
        json_decref(event);
    }
    if (result < 0 && !link->is_unreadable) {
        log_problem(&problem);
        for (const struct mcp_listen *listen = link->listens; listen; listen = listen->next)
            json_object_update(uris, listen->uris);
    }
    link->is_unreadable = result < 0;
}

void mcp_listen_tell(struct mcp_link *link)
{
    json_t *uris CLEANUP_JSON = json_object(), *messages CLEANUP_JSON = json_array();
    char notes[4096];
    pthread_mutex_lock(&link->mutex);
    if (link->watched && link->listens)
        start_watching(link); /* elsewhere, if it is another one by now */
    bool has_readers = link->has_reader && link->listens;
    while (link->watch_fd >= 0 && read(link->watch_fd, notes, sizeof notes) > 0)
        ;
    if (has_readers)
        read_changes(link, uris);
    collect_changes(link, uris, messages);
    int64_t now_ms = clock_now().boot_ms;
    /* Not with every change: looking itself changes files of the database. */
    bool looks = has_readers && !link->is_looking && !link->is_ended && now_ms - link->looked_ms >= LOOK_EVERY_MS &&
                 !link->server->options.is_told;
    if (looks) {
        link->is_looking = true;
        link->looked_ms = now_ms;
    }
    pthread_mutex_unlock(&link->mutex);
    if (looks)
        pool_submit(link->server->pool, listen_look, link);
    send_messages(link, "notifications/resources/updated", messages);
}

/* Calls `choose` for each listener of each link, and sends what it gave. */
static void tell_all(struct mcp_server *server, const char *method,
                     json_t *(*choose)(const struct mcp_listen *listen, const void *data), const void *data)
{
    pthread_mutex_lock(&server->mutex);
    for (struct mcp_link *link = server->links; link; link = link->next) {
        json_t *messages CLEANUP_JSON = json_array(), *params;
        pthread_mutex_lock(&link->mutex);
        for (const struct mcp_listen *listen = link->listens; listen; listen = listen->next)
            if ((params = choose(listen, data)))
                add_message(messages, listen, params);
        pthread_mutex_unlock(&link->mutex);
        send_messages(link, method, messages);
    }
    pthread_mutex_unlock(&server->mutex);
}

struct task_news {
    const char *id;
    const json_t *task;
};

static json_t *choose_task(const struct mcp_listen *listen, const void *data)
{
    const struct task_news *news = data;
    bool is_wanted = listen->task_ids && json_object_get(listen->task_ids, news->id);
    return is_wanted ? json_deep_copy(news->task) : NULL;
}

void mcp_listen_task(struct mcp_server *server, const char *task_id, const json_t *task)
{
    tell_all(server, "notifications/tasks", choose_task, &(struct task_news){task_id, task});
}

static json_t *choose_tools(const struct mcp_listen *listen, const void *data)
{
    (void)data;
    return listen->tools ? json_object() : NULL;
}

static json_t *choose_prompts(const struct mcp_listen *listen, const void *data)
{
    (void)data;
    return listen->prompts ? json_object() : NULL;
}

void mcp_listen_list_changed(struct mcp_server *server, bool is_tools)
{
    tell_all(server, is_tools ? "notifications/tools/list_changed" : "notifications/prompts/list_changed",
             is_tools ? choose_tools : choose_prompts, NULL);
}
