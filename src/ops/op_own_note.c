/* op_own_note.c - the note that others see beside what an instance holds. */
#include "ops/own_args.h"

#include <limits.h>
#include <unistd.h>

static int run_note(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct instance caller;
    char directory[PATH_MAX];
    const char *note = json_get_string(call->args, "text", NULL);
    struct who who = *who_current(), kept;
    if ((note && who_check_note(note, err) < 0) || own_args_open(call, &owners, &caller, err) < 0)
        return -1;
    int known = who_load(&owners.db, caller.id, &kept, err);
    if (known < 0)
        return -1;
    bool is_new = !known || !who_is_same(&who, &kept);
    if (note && is_new && who_register(call->ws, &caller, NULL, getcwd(directory, sizeof directory), &who, err) < 0)
        return -1;
    if (note && who_write_note(call->ws, caller.id, note, err) < 0)
        return -1;
    who_look(call->ws, caller.id, &kept);
    const char *label = kept.label[0] ? kept.label : who.label;
    *ret =
        json_pack("{s:s, s:s, s:s?}", "instance", caller.id, "label", label, "note", kept.note[0] ? kept.note : NULL);
    call->says = kept.note[0] ? "own_noted" : "own_note_none";
    return 0;
}

const struct op op_own_note = {
    NAMES("own.note", "own", "note"),
    .summary = "Set the note that others see beside everything you hold. Without a text, show it.",
    .detail = "The note stays until you change it or end. A lock, claim or process with a note of its own (--note) "
              "keeps that note. An empty text removes it. Everybody in the workspace can read it: put no "
              "secret into it.",
    .examples = "tasuki own note 'refactoring auth'\n"
                "tasuki own note ''  # remove it",
    .flags = OP_IDEMPOTENT,
    .params = PARAMS(PARAM("text", OP_STRING, OP_POSITIONAL, "TEXT", "Up to 200 characters.", .max = WHO_NOTE_SIZE - 1),
                     INSTANCE_PARAM),
    .result = FIELDS({"instance", "string", "you"}, {"label", "string", "your name for people"},
                     {"note", "string?", "null: none"}),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http = ROUTE("PUT", "/api/agents/me"),
    .mcp =
        TOOL("note_set", "ownership", .refusal = "NOT SET",
             .text = "Say what you work on, in a few words: others read it when they meet your locks and processes. It "
                     "stays until you change it."),
    .run = run_note,
};
