/* attach.c - a person's terminal, connected to that of a process.
 *
 *  K1  Whatever ends it (the key, SIGTERM, SIGHUP, SIGINT, SIGQUIT, the end of the connection), the terminal gets back its settings
 *      and the modes that the program has switched on: the other screen, the hidden cursor, the mouse.
 *  K2  The signals are blocked and read like keys, so that none of them comes between the two. */
#include "cli/cli.h"
#include "hold/protocol.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* A private mode of the terminal (ESC [ ? number h), and whether it is on when a program begins. */
struct terminal_mode {
    int number;
    bool is_on_first, is_on;
};

static const struct terminal_mode first_modes[] = {
    {1, false, false},    {25, true, true},     {47, false, false},   {1000, false, false},
    {1002, false, false}, {1003, false, false}, {1004, false, false}, {1006, false, false},
    {1047, false, false}, {1049, false, false}, {2004, false, false},
};
enum { MODES = sizeof first_modes / sizeof first_modes[0] };

struct terminal {
    struct op_call *call;
    const char *id;
    int connection, signals;
    char leave;
    struct terminal_mode modes[MODES];
    bool has_escapes;
    char sequence[32]; /* the one that is being printed, from the ESC on */
    size_t sequence_len;
    bool is_over;
    enum op_attach_end end;
    char packet[HOLD_TTY_PACKET_MAX];
};

/* ---- output ---- */

static bool terminal_write(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t done = write(STDOUT_FILENO, text, len);
        if (done < 0 && errno != EINTR)
            return false;
        text += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

static void mode_set(struct terminal *t, int number, bool is_on)
{
    for (size_t i = 0; i < MODES; i++)
        if (t->modes[i].number == number)
            t->modes[i].is_on = is_on;
}

/* ESC [ ? 1 ; 2 h */
static void sequence_take(struct terminal *t, char last)
{
    t->sequence[t->sequence_len] = '\0';
    if ((last != 'h' && last != 'l') || strncmp(t->sequence, "\033[?", 3) != 0)
        return;
    for (char *at = t->sequence + 3; *at; at += *at == ';') {
        mode_set(t, (int)strtol(at, &at, 10), last == 'h');
        if (*at != ';')
            break;
    }
}

static void modes_watch(struct terminal *t, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (c == '\033') {
            t->has_escapes = true;
            t->sequence_len = 0;
        } else if (t->sequence_len == 0) {
            continue;
        }
        bool is_middle = t->sequence_len < 3 || (c >= '0' && c <= '9') || c == ';';
        if (t->sequence_len < sizeof t->sequence - 1 && is_middle) {
            t->sequence[t->sequence_len++] = c;
            continue;
        }
        sequence_take(t, c);
        t->sequence_len = 0;
    }
}

/* K1 */
static void modes_restore(struct terminal *t)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < MODES; i++)
        if (t->modes[i].is_on != t->modes[i].is_on_first)
            buf_printf(&text, "\033[?%d%c", t->modes[i].number, t->modes[i].is_on_first ? 'h' : 'l');
    if (t->has_escapes)
        buf_puts(&text, "\033[m\033>");
    terminal_write(buf_str(&text), text.len);
}

/* The log has no carriage returns before its newlines. */
static bool replay_write(const char *text, size_t len)
{
    struct buf shown CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            buf_puts(&shown, "\r");
        buf_put(&shown, text + i, 1);
    }
    return terminal_write(buf_str(&shown), shown.len);
}

/* A sentence of ours, on lines of its own. */
static void terminal_say(struct terminal *t, const char *key, const char *count)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT, lines CLEANUP(buf_clear) = BUF_INIT;
    char leave[] = {'C', 't', 'r', 'l', '-', (char)(t->leave + '@'), '\0'};
    text_put(&text, t->call->lang, key, "id", t->id, "key", leave, "count", count, "span", count, NULL);
    cli_put_wrapped(&lines, buf_str(&text), 0, (size_t)cli_terminal_width(stdout));
    replay_write("\n", 1);
    replay_write(buf_str(&lines), lines.len);
}

static void say_count(struct terminal *t, const char *key, const char *data)
{
    char text[TIME_TEXT_MAX];
    int64_t count;
    memcpy(&count, data, sizeof count);
    snprintf(text, sizeof text, "%lld", (long long)count);
    terminal_say(t, key, text);
}

/* Below a second it is there before the sentence is read. */
static void say_again(struct terminal *t, const char *data)
{
    int64_t delay_ms;
    memcpy(&delay_ms, data, sizeof delay_ms);
    terminal_say(t, delay_ms < 1000 ? "attach_again_now" : "attach_again", DURATION_LEFT(delay_ms));
}

static void packet_take(struct terminal *t, size_t len)
{
    const char *data = t->packet + 1;
    bool is_number = len == 1 + sizeof(int64_t);
    switch (t->packet[0]) {
    case HOLD_TTY_REPLAY:
    case HOLD_TTY_OUTPUT:
        modes_watch(t, data, len - 1);
        t->is_over = !(t->packet[0] == HOLD_TTY_REPLAY ? replay_write : terminal_write)(data, len - 1);
        break;
    case HOLD_TTY_UNSEEN:
        if (is_number)
            say_count(t, "attach_unseen", data);
        break;
    case HOLD_TTY_UNTYPED:
        if (is_number)
            say_count(t, "attach_untyped", data);
        break;
    case HOLD_TTY_AGAIN:
        if (is_number)
            say_again(t, data);
        break;
    case HOLD_TTY_FULL:
        t->end = OP_ATTACH_FULL;
        t->is_over = true;
        break;
    default: /* of a newer holder */
        break;
    }
}

static void connection_read(struct terminal *t)
{
    ssize_t len = recv(t->connection, t->packet, sizeof t->packet, MSG_DONTWAIT);
    if (len > 0) {
        packet_take(t, (size_t)len);
    } else if (len == 0 || (errno != EAGAIN && errno != EINTR && errno != ECONNRESET)) {
        /* A reset comes before what the holder had sent: that is read next, and then the end. */
        t->end = OP_ATTACH_CLOSED;
        t->is_over = true;
    }
}

/* ---- input ---- */

static void size_send(const struct terminal *t)
{
    struct winsize size;
    char packet[1 + 2 * sizeof(uint16_t)] = {HOLD_TTY_SIZE};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
        return;
    const uint16_t both[2] = {size.ws_row, size.ws_col};
    memcpy(packet + 1, both, sizeof both);
    send(t->connection, packet, sizeof packet, MSG_NOSIGNAL);
}

static void keys_read(struct terminal *t)
{
    char packet[1 + HOLD_TTY_KEYS_MAX] = {HOLD_TTY_KEYS};
    ssize_t len = read(STDIN_FILENO, packet + 1, HOLD_TTY_KEYS_MAX);
    const char *leave = len > 0 ? memchr(packet + 1, t->leave, (size_t)len) : NULL;
    t->is_over = leave || len == 0 || (len < 0 && errno != EINTR && errno != EAGAIN);
    size_t keys = leave ? (size_t)(leave - packet - 1) : len > 0 ? (size_t)len : 0;
    if (keys)
        send(t->connection, packet, 1 + keys, MSG_NOSIGNAL); /* a connection that has ended is seen by reading it */
}

static void signal_read(struct terminal *t)
{
    struct signalfd_siginfo info;
    if (read(t->signals, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo == SIGCONT)
        cli_take_raw(); /* the shell has given the terminal its own settings meanwhile */
    if (info.ssi_signo == SIGCONT || info.ssi_signo == SIGWINCH)
        size_send(t);
    else
        t->is_over = true;
}

static void terminal_run(struct terminal *t)
{
    terminal_say(t, "attach_first", "");
    size_send(t);
    while (!t->is_over) {
        struct pollfd fds[] = {{.fd = t->signals, .events = POLLIN},
                               {.fd = t->connection, .events = POLLIN},
                               {.fd = STDIN_FILENO, .events = POLLIN}};
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return;
        if (fds[0].revents)
            signal_read(t);
        if (fds[1].revents && !t->is_over)
            connection_read(t);
        if (fds[2].revents && !t->is_over)
            keys_read(t);
    }
}

enum op_attach_end cli_attach(struct op_call *call, const char *id, int connection, char leave)
{
    static const int numbers[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGWINCH, SIGCONT};
    struct terminal t = {.call = call, .id = id, .connection = connection, .leave = leave, .end = OP_ATTACH_LEFT};
    sigset_t taken, before;
    memcpy(t.modes, first_modes, sizeof t.modes);
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(&taken, numbers[i]);
    sigprocmask(SIG_BLOCK, &taken, &before);
    t.signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (t.signals >= 0 && cli_take_raw())
        terminal_run(&t);
    modes_restore(&t);
    cli_take_keys(call, false);
    terminal_write("\n", 1);
    close(t.signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return t.end;
}
