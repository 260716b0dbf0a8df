/* notify.h - notifications for people: `notify:` in config.yaml names a command for each kind of event.
 *
 *     notify:
 *       question: desktop             # notify-send, where it exists
 *       failure: ./mail-failure.sh    # a text goes to a shell, a list is taken word by word
 *       done: bell                    # rings in `watch` and `up`; no command
 *
 * The command gets the event as one JSON object on its standard input and runs in the workspace's root. tasuki does not wait
 * for it, and ends it after NOTIFY_MAX_S.
 *
 *  N1  A notification is marked on the disk before its command is started. So the command is started at most once, however many
 *      processes find the same event. A crash in between loses the notification. */
#ifndef STORE_NOTIFY_H
#define STORE_NOTIFY_H

#include "base/json.h"
#include "base/yaml.h"
#include "store/workspace.h"

#define NOTIFY_MAX_S "30"

/* question: a run waits for an answer. failure: a run or a process has failed. done: a run is done. stuck: work stands still that
 * nobody continues with: a run or a queue whose process died, a queue that cannot continue. */
enum notify_event { NOTIFY_QUESTION, NOTIFY_FAILURE, NOTIFY_DONE, NOTIFY_STUCK, NOTIFY_EVENT_COUNT };
extern const char *const notify_event_names[];

/* Whether config.yaml says `EVENT: bell`: for the views that ring. A configuration that cannot be read rings nowhere. */
bool notify_rings(struct tsk_workspace *ws, enum notify_event event);
/* Whether it names a command for that event. */
bool notify_has_command(struct tsk_workspace *ws, enum notify_event event);
/* INVALID_INPUT with the place of what is wrong in `notify:`. */
int notify_check(struct tsk_workspace *ws, struct tsk_error *err);

/* One notification: open, mark, send. */
struct notice {
    struct tsk_workspace *ws;
    enum notify_event event;
    struct yaml *doc;
    const struct yaml_node *node; /* the command */
};
/* False: config.yaml has no command for that event. A problem is logged. */
bool notice_open(struct notice *notice, struct tsk_workspace *ws, enum notify_event event);
void notice_clear(struct notice *notice); /* for CLEANUP */
/* N1: true if the mark is ours. */
bool notice_mark(int dir, const char *name);
/* event, time, workspace. Owned. */
json_t *notice_json(const struct notice *notice);
/* The event notify.failed: `subject` (changed) and why. */
void notice_tell_failed(struct tsk_workspace *ws, json_t *subject, const char *key, json_t *why_take);
/* After the mark. `json`: what the command reads. A command that cannot be started, or ends otherwise than with 0, is an event. */
void notice_send(const struct notice *notice, const json_t *json);

#endif
