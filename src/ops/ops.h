/* ops.h - the operation table: everything tasuki can do, one row each.
 *
 * A row says what the operation is called, which typed parameters it takes, what it returns, which errors it has, and how it is
 * reached: as a CLI verb, an HTTP route, an MCP tool. The three skins, `--help`, the man pages, shell completion, OpenAPI and
 * the MCP schemas are made from the rows; none of them knows an operation by name.
 *
 * Adding an operation: a handler and a row `const struct op op_<name> = {…}` in src/ops/op_<noun>.c. The table is made from the
 * rows at build time (tools/list_rows.py); CONTRIBUTING.md has the recipe. The parts of a row have short forms:
 *
 *     NAMES("lock.renew", "lock", "renew")                         its name; noun (or NULL) and verb on the command line
 *     PARAMS(INSTANCE_PARAM, PARAM(…), FLAG(…))                    its parameters; PARAMS(): none
 *     PARAM("ttl", OP_DURATION, OP_OPTIONAL, "D", "A new TTL.", .min = 1)
 *         name, type, flags, value in the help, help; then the rest of struct op_param by name
 *     FLAG("strict", OP_OPTIONAL, "Refuse another session.")       a PARAM of type OP_BOOL, which has no value
 *     FIELDS({"fence", "integer", "grows with each acquisition"})  the keys of its result; FIELDS(): none
 *     ERRORS(TSK_LOCK_LOST, TSK_INVALID_INPUT)                     the reasons for a refusal
 *     ROUTE("PUT", "/api/locks/:kind/:id")                         its route; then the rest of struct op.http by name
 *     TOOL("lock_renew", "locks", .text = "Extend …")              its tool and group; then the rest of struct op.mcp
 *
 * Parts that several rows share are an array that ends with {0}, or a macro for one or more PARAMs or FIELDs (elements of
 * FIELDS). */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "base/json.h"
#include "base/text.h"
#include "base/who.h"
#include "base/word.h"
#include "store/workspace.h"

#define REMOTE_WAIT_MAX_MS 45000 /* clients of HTTP and MCP give up after a minute; they can repeat the call */

enum op_type {
    OP_STRING,   /* any UTF-8 text up to max (default 4096) bytes */
    OP_ID,       /* id_is_valid */
    OP_INT,      /* min … max */
    OP_BOOL,     /* a flag on the command line */
    OP_DURATION, /* "30s", "5m"; a number is seconds. In the arguments: ms, -1 for ever */
    OP_ENUM,     /* one of `choices` */
    OP_PATH,     /* a file name or path */
    OP_ARGV,     /* the rest of the command line: a list of strings */
    OP_MAP,      /* an object of strings; on the command line `--name K=V`, repeated */
    OP_ANY,      /* a string, or an object that the handler checks */
    OP_OBJECTS,  /* a list of objects that the handler checks; on the command line the name of a file */
};

enum op_param_flags {
    OP_OPTIONAL = 0,

    /* What the caller gives. */
    OP_REQUIRED = 1 << 0,
    OP_SHOWN_REQUIRED = 1 << 1, /* required, but the handler reports it, in its own words */
    OP_CALLER = 1 << 2, /* identifies the caller; a skin that knows the caller fills it in and does not offer it */

    /* More values than the type has. */
    OP_MANY = 1 << 3,     /* one string, or a list of them; on the command line several words */
    OP_LIST = 1 << 4,     /* with OP_MANY: a list also where one is enough */
    OP_FOREVER = 1 << 5,  /* OP_DURATION: also "forever" */
    OP_MS = 1 << 6,       /* OP_DURATION: a bare number is milliseconds, not seconds */
    OP_ANYWHERE = 1 << 7, /* OP_PATH: also outside the workspace, for every caller */
    OP_SHELL = 1 << 8,    /* OP_ARGV: by name also one string, a line for a shell */

    /* Where it is given. */
    OP_POSITIONAL = 1 << 9,   /* on the command line by position; by name everywhere else */
    OP_PROGRAM = 1 << 10,     /* on the command line the first word after `--`; OP_ARGV takes the others */
    OP_CLI_ONLY = 1 << 11,    /* has no meaning for HTTP and MCP (confirmation on a terminal, output) */
    OP_REMOTE_ONLY = 1 << 12, /* has no meaning on the command line */
    OP_PAGE_ONLY =
        1
        << 13, /* not for agents, who would pay for a description that they do not use; with OP_REMOTE_ONLY only over HTTP */
    OP_REMOTE_REQUIRED = 1 << 14, /* required but on the command line; the handler reports it */
    OP_NOT_AN_OPTION = OP_POSITIONAL | OP_PROGRAM | OP_REMOTE_ONLY,
};

struct op_param {
    const char *name; /* in JSON; on the command line `--name` with - for _ */
    enum op_type type;
    unsigned flags;
    const char *value; /* what the help shows for the value: "D" */
    const char *help;
    int64_t min, max; /* OP_INT; OP_STRING: max bytes */
    const char *const *choices;
    const char *fallback;  /* shown in help and schemas; the handler applies it */
    char letter;           /* short option, or 0 */
    const char *completes; /* what shell completion offers: "lock-id", "noun", NULL */
    const char *option;    /* another name on the command line, or NULL */
    const char
        *fills; /* with OP_CLI_ONLY: the text of the file that it names ("-": stdin) is given for that parameter */
    const char *
        agent_help; /* what agents read instead of help, where that speaks of the command line; NULL: the same, "": the name
                        says it */
};

/* A top-level key of the result, for schemas and documentation. */
struct op_field {
    const char *name;
    const char *type; /* JSON Schema type; "string?" may be null or absent */
    const char *help;
};

enum op_flags {
    /* What it changes. */
    OP_READ_ONLY = 1 << 0,
    OP_DESTRUCTIVE = 1 << 1, /* may end or remove something that somebody may want */
    OP_IDEMPOTENT = 1 << 2,
    OP_KEEPS_REST = 1 << 3, /* what is not mentioned stays as it is: the parameters' defaults do not apply */

    /* What it needs: a workspace, unless one of these is set. */
    OP_NO_WORKSPACE = 1 << 4,    /* works without one; call->ws is NULL */
    OP_WANTS_WORKSPACE = 1 << 5, /* uses one if there is one; call->ws may be NULL */

    /* How long it takes. */
    OP_WAITS = 1 << 6, /* may take as long as REMOTE_WAIT_MAX_MS; if it has a parameter `wait`, only with it */
    OP_INTERRUPTIBLE =
        1 << 7,          /* may wait; a signal handler in its thread ends the wait, and then nothing has changed */
    OP_STREAMS = 1 << 8, /* call->emit is used, one JSON document per line */

    /* How it answers. */
    OP_VERDICTS = 1 << 9,  /* its result may be no success, and comes with that status (call->verdict) */
    OP_GOES_ON = 1 << 10,  /* the same, and it may be the result of what continues by itself (call->goes_on) */
    OP_QUESTION = 1 << 11, /* asks for a state: a negative verdict is an answer, not a refusal */
};

/* The short forms. */
/* clang-format off */
/* The text of a number that has a name: a default is defined once. */
#define OP_TEXT(number) OP_TEXT_OF(number)
#define OP_TEXT_OF(number) #number
#define NAMES(name_, noun_, verb_) .name = name_, .noun = noun_, .verb = verb_
#define PARAMS(...) (const struct op_param[]){__VA_ARGS__ __VA_OPT__(,) {0}}
#define PARAM(name_, type_, flags_, value_, help_, ...) \
    {.name = name_, .type = type_, .flags = flags_, .value = value_, .help = help_ __VA_OPT__(,) __VA_ARGS__}
#define FLAG(name_, flags_, help_, ...) PARAM(name_, OP_BOOL, flags_, NULL, help_ __VA_OPT__(,) __VA_ARGS__)
#define FIELDS(...) (const struct op_field[]){__VA_ARGS__ __VA_OPT__(,) {0}}
#define FIELD(name_, type_, help_) {name_, type_, help_}
#define ERRORS(...) (const enum tsk_code[]){__VA_ARGS__ __VA_OPT__(,) TSK_OK}
#define ROUTE(method_, path_, ...) {.method = method_, .path = path_ __VA_OPT__(,) __VA_ARGS__}
#define TOOL(tool_, group_, ...) {.tool = tool_, .group = group_ __VA_OPT__(,) __VA_ARGS__}
/* clang-format on */

/* Parameters of many rows. */
#define INSTANCE_PARAM                                                                                                 \
    PARAM("instance", OP_STRING, OP_CALLER, "I",                                                                       \
          "The caller's instance id (default: TASUKI_INSTANCE_ID, else the calling process).", .max = 256)
#define NOTE_PARAM_HELP "What you work on, for people; up to 200 characters (default: TASUKI_NOTE)."
#define NOTE_PARAM                                                                                                     \
    PARAM("note", OP_STRING, OP_OPTIONAL, "TEXT", NOTE_PARAM_HELP, .max = WHO_NOTE_SIZE - 1, .agent_help = "")
#define YES_PARAM FLAG("yes", OP_CLI_ONLY, "Answer the question with yes.")

struct op_call;

/* One more route to an operation. */
struct op_route {
    const char *method, *path;
    const char *
        preset; /* "force=true": an argument that the path stands for, or NULL. With "follow=true" the answer is a stream */
};

struct op {
    const char *name;     /* "lock.acquire" */
    const char *noun;     /* CLI: "lock", or NULL for a top-level verb */
    const char *verb;     /* CLI: "acquire"; may be two words: "template create" */
    const char *summary;  /* one sentence: what it does and when to use it */
    const char *detail;   /* more for the manual; may be NULL */
    const char *examples; /* lines of the form "command  # what it does"; may be NULL */
    unsigned flags;
    const struct op_param *params; /* ends with a NULL name */
    const struct op_field *result; /* ends with a NULL name */
    const enum tsk_code *errors;   /* ends with TSK_OK */
    struct {
        const char *method, *path;   /* path with :param */
        const char *when;            /* "mode=acquire": rows that share method and path differ by an argument */
        const char *absent;          /* why there is no route */
        const struct op_route *also; /* ends with a NULL method; may be NULL */
    } http;
    struct {
        const char *tool, *group;
        const char *absent; /* why there is no tool */
        const char *text;   /* for agents: what and when; side effect and refusal; lifetime. NULL: summary and detail */
        const char *refusal; /* the verdict an error's text begins with: "NOT ACQUIRED"; NULL: by its category */
        bool is_core;        /* in the working set */
        bool (*when)(struct tsk_workspace *ws); /* offered only where this says so; NULL: everywhere */
    } mcp;
    int (*run)(struct op_call *call, json_t **ret, struct tsk_error *err);
};

/* A line of one of several processes. */
struct op_line {
    /* A remark is about all, and of us. What the call waits for is below all lines on a terminal until the next one; "": nothing. */
    enum { OP_LINE_STDOUT, OP_LINE_STDERR, OP_LINE_STATE, OP_LINE_REMARK, OP_LINE_AWAITED } kind;
    const char *id;   /* of the process; "" for a remark */
    size_t which;     /* its number, for a colour */
    size_t width;     /* columns of the longest id */
    const char *text; /* not NUL-terminated; may be binary */
    size_t len;
    bool is_partial; /* the line has no end yet, or this is a piece of it */
    bool is_bad;     /* OP_LINE_STATE: a failure; OP_LINE_REMARK: an error, which --quiet does not hide */
    bool rings;      /* with the terminal's bell */
};

/* Why a terminal is no longer connected to a process. */
enum op_attach_end { OP_ATTACH_LEFT, OP_ATTACH_CLOSED, OP_ATTACH_FULL };

/* One call, filled by a skin. */
struct op_call {
    const struct op *op;
    json_t *args;             /* object, validated by op_check_args */
    struct tsk_workspace *ws; /* open, unless the row says otherwise */
    const char *root;         /* --root as given, or NULL */
    enum lang lang;
    bool is_cli; /* the caller is a command that returns: the holder is guessed (base/ident.h) */
    bool
        is_remote; /* it reached a server that many clients share: no process above this one is the caller (caller.c) */
    bool is_borrowed; /* its instance is that of the agent which gave it the work */
    struct tsk_workspace
        *home; /* is_remote: the server's workspace, which knows registered callers; also where ws is NULL */
    bool is_quiet;
    bool is_written; /* the skin writes the answer and reads nothing in its lists: they may be finished (base/json.h) */
    bool is_brief;   /* the caller pays for every byte: what may be long is short unless more is asked for */
    /* Asks a person; false: no, or nobody answered. NULL: there is nobody to ask. */
    bool (*confirm)(struct op_call *call, const char *question);
    bool asks_about_dead; /* set before confirm: nobody alive loses anything by a yes */
    bool has_force;       /* set before confirm: `force` does it without a person, as the refusal says */
    /* The call waits for `kind` `id` (NULL: it has none) since that time; kind NULL: no more. NULL: nobody shows it. */
    void (*waits)(struct op_call *call, const char *kind, const char *id, int64_t since_ms);
    /* Whether nobody waits for the answer any more; operations that wait ask this. NULL: somebody waits. */
    bool (*is_cancelled)(struct op_call *call);
    /* In a runner that was started apart (ops/detached.h): takes the decision, the run's stage as soon as its locks are taken.
     * NULL: nobody waits for it. */
    void (*decided)(struct op_call *call, const json_t *stage);
    /* OP_STREAMS: takes one document; false: stop. */
    bool (*emit)(struct op_call *call, const json_t *document);
    bool wants_ticks; /* OP_STREAMS: the document is wanted although nothing has changed, to show how time goes by */
    /* Takes lines that another program wrote, as they are, for a person or a pipe; false: stop. NULL: documents are wanted. */
    bool (*emit_text)(struct op_call *call, const char *text, size_t len);
    /* Takes a line of one of several processes, for a person or a pipe; false: stop. NULL as the line: there is no more for the moment,
     * show what was taken. The function is NULL where documents are wanted. */
    bool (*emit_line)(struct op_call *call, const struct op_line *line);
    /* Whether single keys can be read from stdin from now on (`on`), or no longer. NULL: never. */
    bool (*take_keys)(struct op_call *call, bool on);
    /* Connects the terminal of the caller to that of process `id`, whose holder is at the other end of `connection`, until the
     * caller presses the control key `leave`, has to end, or the connection ends. NULL: there is no terminal. */
    enum op_attach_end (*attach)(struct op_call *call, const char *id, int connection, char leave);
    void *skin;
    /* What the answer amounts to, when it is an answer and yet no success (`lock check` of a held lock): decides exit code and
     * HTTP status. TSK_OK otherwise. */
    enum tsk_code verdict;
    bool goes_on; /* the answer says what has begun, and it continues by itself: HTTP 202 */
    /* The key of a sentence that people read instead of the result; its placeholders are keys of the result or of `aside`. */
    const char *says;
    json_t *aside; /* more that a person wants to know, where the result's keys are fixed; owned by the skin */
    int exit_code; /* `lock run`: the command's own, when has_exit_code */
    bool has_exit_code;
};

/* All rows, in the order in which help shows them, then NULL (operations.gen.c, made by tools/list_rows.py). */
extern const struct op *const op_rows[];
#define op_foreach(row) for (const struct op *const *row##_at = op_rows, *row; (row = *row##_at); row##_at++)
/* Whether it is a command of this noun; `noun` NULL: a top-level one. */
bool op_has_noun(const struct op *op, const char *noun);
const struct op *op_find(const char *noun, const char *verb);
/* The words of the command after `tasuki`: "lock renew" or "status". The text lasts as long as the block in which the macro stands. */
#define OP_WORDS(op) op_words((op), (char[64]){0})
const char *op_words(const struct op *op, char words[64]); /* for OP_WORDS */
/* The error of a mode that the sprint interface does not have, with the sprint object beside it. Returns -1. */
int sprint_invalid_mode(const char *mode, struct tsk_error *err);
const struct op *op_by_name(const char *name);
/* A suggested command as this caller types it: a tasuki command names the workspace that the caller has named. `root` may be NULL. */
void op_put_command(struct buf *b, const char *root, const char *command);
/* Appends the command as it was typed, but with `value` for the parameter `name`; NULL: without it. */
void op_put_typed(struct buf *line, const struct op_call *call, const char *name, json_t *value);

/* Checks and normalises arguments in place: unknown names, missing ones, types and constraints; durations become ms. */
int op_check_args(const struct op *op, json_t *args, struct tsk_error *err);
/* The refusal; `word` is what the caller would write. */
int op_param_missing(const struct op *op, const char *word, struct tsk_error *err);
/* The help of the command as the next one, where input was refused and nothing better is known. */
void op_propose_help(const struct op *op, struct tsk_error *err);
/* What a duration's text means for this parameter: ms, -1 for ever. */
int op_duration(const struct op_param *param, const char *text, int64_t *ret_ms);
const struct op_param *op_param_find(const struct op *op, const char *name);
/* INVALID_INPUT when there are arguments that only the command line has. */
int op_check_remote(const struct op *op, const json_t *args, struct tsk_error *err);
/* For calls that came to a server of many: INVALID_INPUT when a path leads out of its workspace. */
int op_check_paths(const struct op_call *call, struct tsk_error *err);
/* Whether it may ask a person. */
bool op_asks(const struct op *op);

/* ---- caller.c ---- */

/* Over HTTP, beside `instance`: proves that the caller is that one. No parameter of a row: the skins take it away. */
#define OP_SECRET "secret"
/* Whether the arguments of a call can name its caller: `instance` is a parameter, or the operation changes something. */
bool op_takes_caller(const struct op *op);
/* Remove the secret, or an `instance` that is not a parameter, from the arguments of such an operation. Return it (owned), or NULL
 * if there was none. */
char *op_take_secret(const struct op *op, json_t *args);
char *op_take_caller(const struct op *op, json_t *args);
/* For calls that came to a server of many (is_remote): whether `instance` (NULL, "": 0, nobody) is a registered one and this is
 * its secret (NULL: none); renews its lease and its locks. UNAUTHORIZED. `ws`: the server's. */
int op_verify_caller(struct tsk_workspace *ws, const char *instance, const char *secret, struct tsk_error *err);
/* Adds the command that registers a client. */
void op_hint_register(struct tsk_error *err);
/* The same for a caller that has proved its identity before and is still connected: an open stream. */
int op_renew_caller(struct tsk_workspace *ws, const char *instance, struct tsk_error *err);
/* The instance has ended cleanly: its locks and claims are released, its registration goes. How many of each, if wanted. */
struct instance_end {
    int locks, claims;  /* how many were released */
    json_t *unreadable; /* the paths of locks that cannot be read: they may be its; owned */
};
int op_end_instance(struct tsk_workspace *ws, const char *root, const char *instance, struct instance_end *ret,
                    struct tsk_error *err);

/* Opens the workspace as the row asks, runs the handler. */
int op_run(struct op_call *call, json_t **ret, struct tsk_error *err);

#endif
