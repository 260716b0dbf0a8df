/* place.c - the directory itself: what is where, who may do what with it, the file system below, room. */
#include "base/listing.h"
#include "doctor/check.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ROOM_FAIL   (128u << 10) /* bytes: a run could not begin */
#define ROOM_WARN   (64u << 20)
#define INODES_FAIL 16
#define INODES_WARN 1000
#define PROBE_SIZE  4096
#define IGNORE_MAX  (4u << 20)

/* What has a fixed place in the state directory. */
struct place {
    const char *name;
    bool is_dir;
    bool is_ours; /* written by tasuki only: nobody else may read it, and no symbolic link is followed */
};

static const struct place places[] = {
    {"", true, false},         {"requests", true, false},      {"flows", true, false},
    {"locks", true, true},     {"locks/.guard", true, true},   {"runs", true, true},
    {"processes", true, true}, {"runners", true, true},        {"after", true, true},
    {"state.db", false, true}, {"events.ndjson", false, true}, {"events.lock", false, true},
};

static const char *at_name(const struct place *place)
{
    return place->name[0] ? place->name : ".";
}

/* The mode bits that are too open. Directories that people or git create follow the umask and may be shared by a team,
 * so only write access for everybody is wrong there. */
static mode_t bad_mode(const struct place *place, const struct stat *st)
{
    return st->st_mode & (place->is_ours ? 077 : 002);
}

static void look_at_mode(struct finding *f, const struct place *place, const struct stat *st)
{
    char path[PATH_MAX], found[16];
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    mode_t good = (st->st_mode & 07777 & ~bad_mode(place, st)) | (place->is_dir ? 0700 : 0600);
    if (!bad_mode(place, st))
        return;
    state_path(f->doctor, place->name, path);
    snprintf(found, sizeof found, "%04o", (unsigned)(st->st_mode & 07777));
    if (finding_fixes(f) && fchmodat(f->doctor->ws->state_dir, at_name(place), good, 0) == 0) {
        finding_fixed(f, "doctor_mode_fixed", "path", path, NULL);
        return;
    }
    finding_add(f, DOCTOR_WARN, "doctor_mode", "path", path, "mode", found, NULL);
    if (geteuid() == 0 || st->st_uid == geteuid()) /* for others only its owner can do it, which look_at_access says */
        finding_fix(f, "chmod %o %s", (unsigned)good, shell_word(&word, path));
}

static void look_at_owner(struct finding *f, const struct place *place, const struct stat *st, const struct stat *top)
{
    char path[PATH_MAX];
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    if (st->st_uid == top->st_uid)
        return;
    state_path(f->doctor, place->name, path);
    finding_add(f, DOCTOR_WARN, "doctor_owner", "path", path, "uid", DIGITS(st->st_uid), "wanted", DIGITS(top->st_uid),
                NULL);
    /* One command for everything: what one `sudo tasuki …` has left is in many folders. */
    state_path(f->doctor, "", path);
    finding_fix(f, "%schown -hR %u:%u %s", geteuid() == 0 ? "" : "sudo ", top->st_uid, top->st_gid,
                shell_word(&word, path));
}

static void look_at_access(struct finding *f, const struct place *place, const struct stat *st, const struct stat *top)
{
    char path[PATH_MAX];
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    int wanted = R_OK | W_OK | (place->is_dir ? X_OK : 0);
    if (faccessat(f->doctor->ws->state_dir, at_name(place), wanted, AT_EACCESS) == 0 || errno == EROFS)
        return;
    state_path(f->doctor, place->name, path);
    finding_add(f, DOCTOR_FAIL, "doctor_access", "path", path, "reason", strerrordesc_np(errno), NULL);
    if (st->st_uid == geteuid()) {
        finding_fix(f, "chmod u+rw%s %s", place->is_dir ? "x" : "", shell_word(&word, path));
    } else if (!place->name[0]) { /* said once, of the whole */
        finding_add(f, DOCTOR_FAIL, "doctor_not_yours", "path", path, "uid", DIGITS(st->st_uid), NULL);
        finding_fix(f, "sudo -u '#%u' tasuki --root %s doctor", st->st_uid, shell_word(&word, f->doctor->ws->root));
    } else if (top->st_uid == geteuid()) {
        finding_fix(f, "sudo chown -hR %u:%u %s", geteuid(), getegid(), shell_word(&word, path));
    }
}

/* A link or a file where a directory belongs, or the reverse: nothing that is kept there can be reached. */
static bool has_right_type(struct finding *f, const struct place *place, const struct stat *st)
{
    char path[PATH_MAX];
    struct buf word CLEANUP(buf_clear) = BUF_INIT, aside CLEANUP(buf_clear) = BUF_INIT,
                    moved CLEANUP(buf_clear) = BUF_INIT;
    bool is_link = S_ISLNK(st->st_mode);
    if ((place->is_dir ? S_ISDIR(st->st_mode) : S_ISREG(st->st_mode)) || (is_link && !place->is_ours))
        return true;
    state_path(f->doctor, place->name, path);
    buf_printf(&aside, "%s.aside", path);
    finding_add(f, DOCTOR_FAIL,
                is_link         ? "doctor_symlink"
                : place->is_dir ? "doctor_no_dir"
                                : "doctor_no_file",
                "path", path, NULL);
    finding_fix(f, "mv %s %s", shell_word(&word, path), shell_word(&moved, buf_str(&aside)));
    return false;
}

static void look_at_place(struct finding *f, const struct place *place, const struct stat *top)
{
    struct stat st;
    char path[PATH_MAX];
    if (fs->fstatat(f->doctor->ws->state_dir, at_name(place), &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return; /* made when it is needed; a check of its own reports what is no directory */
        state_path(f->doctor, place->name, path);
        finding_add(f, DOCTOR_FAIL, "doctor_access", "path", path, "reason", strerrordesc_np(errno), NULL);
        return;
    }
    if (!has_right_type(f, place, &st) || S_ISLNK(st.st_mode))
        return;
    look_at_owner(f, place, &st, top);
    look_at_access(f, place, &st, top);
    look_at_mode(f, place, &st);
}

/* A file of another user among those that every user of the workspace must write. One file is named, and the command is for
 * all of them. */
static void look_at_owners_inside(struct finding *f, const struct place *place, const struct stat *top, bool *is_told)
{
    struct stat st;
    struct listing names CLEANUP(listing_close);
    char inside[512];
    listing_open(&names, f->doctor->ws->state_dir, place->name, LISTING_SORTED);
    for (const char *name; !*is_told && (name = listing_next(&names));) {
        struct place one = {inside, false, true};
        int len = snprintf(inside, sizeof inside, "%s/%s", place->name, name);
        bool is_lasting =
            strncmp(name, ".tsk-", 5) != 0 && (names.type == DT_REG || (names.type == DT_DIR && name[0] != '.'));
        if (is_lasting && len < (int)sizeof inside &&
            fs->fstatat(f->doctor->ws->state_dir, inside, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid != top->st_uid) {
            look_at_owner(f, &one, &st, top);
            *is_told = true;
        }
    }
}

static void look_at_read_only(struct finding *f)
{
    if (faccessat(f->doctor->ws->state_dir, ".", W_OK, AT_EACCESS) == 0 || errno != EROFS)
        return;
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    finding_add(f, DOCTOR_FAIL, "doctor_read_only", "path", f->doctor->ws->state_path, NULL);
    finding_fix(f, "findmnt -T %s",
                shell_word(&word, f->doctor->ws->state_path)); /* why it is read-only decides what helps */
}

void check_workspace(struct finding *f)
{
    struct stat top;
    if (fs->fstat(f->doctor->ws->state_dir, &top) < 0 || top.st_nlink == 0) {
        finding_add(f, DOCTOR_FAIL, "doctor_gone", "path", f->doctor->ws->state_path, NULL);
        finding_fix_ours(f, "init");
        return;
    }
    look_at_read_only(f);
    bool is_told = false;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        look_at_place(f, &places[i], &top);
    for (size_t i = 0; f->doctor->options.mode == DOCTOR_FULL && i < sizeof places / sizeof places[0]; i++)
        if (strncmp(places[i].name, "locks", 5) == 0 || strcmp(places[i].name, "processes") == 0 ||
            strcmp(places[i].name, "runs") == 0)
            look_at_owners_inside(f, &places[i], &top, &is_told);
    finding_summary(f, "doctor_workspace_good", "path", f->doctor->ws->state_path, NULL);
}

/* ---- the file system --------------------------------------------------------------------------------------- */

/* Which of the calls that the lock protocol rests on work here; a file of our own under private names, gone afterwards. */
static void try_protocol(struct finding *f, int dir)
{
    char first[FS_PRIVATE_NAME_MAX], second[FS_PRIVATE_NAME_MAX];
    fs_private_name(first);
    fs_private_name(second);
    int flags = O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC;
    int a CLEANUP_FD = fs->openat(dir, first, flags, 0600);
    if (a < 0)
        return; /* told by the checks of the workspace and of the disk */
    int b CLEANUP_FD = fs->openat(dir, first, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
    bool locks = fs_lock_try(a, F_WRLCK, 0, 1) == 0 && b >= 0 && fs_lock_probe(b, F_WRLCK, 0, 1, NULL) == 1;
    bool links = fs->linkat(dir, first, dir, second, 0) == 0;
    bool exchanges = links && fs->renameat2(dir, first, dir, second, RENAME_EXCHANGE) == 0;
    fs->unlinkat(dir, first, 0);
    fs->unlinkat(dir, second, 0);
    if (!locks)
        finding_add(f, DOCTOR_FAIL, "doctor_no_byte_locks", NULL);
    if (!links)
        finding_add(f, DOCTOR_FAIL, "doctor_no_links", NULL);
    else if (!exchanges)
        finding_add(f, DOCTOR_WARN, "doctor_no_exchange", NULL);
}

void check_filesystem(struct finding *f)
{
    struct tsk_error err;
    enum fs_class class;
    const char *type;
    bool trusted = false;
    struct tsk_workspace *ws = f->doctor->ws;
    int dir = ws->state_dir;
    struct stat st;
    if (fs->fstatat(dir, "locks/.guard", &st, AT_SYMLINK_NOFOLLOW) == 0 && workspace_lock_dirs(ws, &err) == 0)
        dir = ws->locks_dir;
    if (fs_classify(dir, &class, &type) < 0) {
        finding_add(f, DOCTOR_WARN, "doctor_access", "path", ws->state_path, "reason", strerrordesc_np(errno), NULL);
        return;
    }
    finding_summary(f, "doctor_fs_good", "type", type, NULL);
    if (class == FS_NETWORK)
        finding_add(f, DOCTOR_FAIL, "doctor_fs_network", "type", type, NULL);
    if (class == FS_SINGLE_KERNEL && workspace_config_bool(ws, "trust_fs", &trusted, &err) == 0)
        finding_add(f, trusted ? DOCTOR_WARN : DOCTOR_FAIL, trusted ? "doctor_fs_trusted" : "doctor_fs_untrusted",
                    "type", type, NULL);
    if (f->doctor->options.mode == DOCTOR_FULL && dir == ws->locks_dir)
        try_protocol(f, dir);
}

/* ---- room -------------------------------------------------------------------------------------------------- */

/* A file without a name: nothing is left of it. */
static int write_probe(int dir)
{
    static const char block[PROBE_SIZE];
    char name[FS_PRIVATE_NAME_MAX];
    int fd CLEANUP_FD = fs_temp_open(dir, 0600, name);
    if (fd < 0)
        return -1;
    int result = fs_write_all(fd, block, sizeof block), saved = errno;
    if (name[0])
        fs->unlinkat(dir, name, 0);
    errno = saved;
    return result;
}

static enum doctor_status grade_of_space(uint64_t left, uint64_t fail, uint64_t warn)
{
    return left < fail ? DOCTOR_FAIL : left < warn ? DOCTOR_WARN : DOCTOR_PASS;
}

void check_disk(struct finding *f)
{
    struct statfs st;
    char room[32];
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    const struct tsk_workspace *ws = f->doctor->ws;
    if (fs->fstatfs(ws->state_dir, &st) < 0) {
        finding_add(f, DOCTOR_WARN, "doctor_access", "path", ws->state_path, "reason", strerrordesc_np(errno), NULL);
        return;
    }
    uint64_t bytes = (uint64_t)(geteuid() == 0 ? st.f_bfree : st.f_bavail) * (uint64_t)st.f_bsize;
    put_bytes(bytes, room);
    finding_summary(f, "doctor_room_good", "room", room, NULL);
    enum doctor_status of_bytes = grade_of_space(bytes, ROOM_FAIL, ROOM_WARN);
    enum doctor_status of_inodes = st.f_files ? grade_of_space(st.f_ffree, INODES_FAIL, INODES_WARN) : DOCTOR_PASS;
    if (of_bytes != DOCTOR_PASS)
        finding_add(f, of_bytes, "doctor_room", "room", room, "path", ws->state_path, NULL);
    if (of_inodes != DOCTOR_PASS)
        finding_add(f, of_inodes, "doctor_inodes", "count", DIGITS(st.f_ffree), "path", ws->state_path, NULL);
    /* The check of the workspace reports what may not be written: no disk is full because of it. */
    if (write_probe(ws->state_dir) < 0 && errno != EROFS && errno != EACCES && errno != EPERM &&
        f->status != DOCTOR_FAIL)
        finding_add(f, DOCTOR_FAIL, "doctor_no_write", "path", ws->state_path, "reason", strerrordesc_np(errno), NULL);
    if (f->status != DOCTOR_PASS)
        finding_fix(f, "du -ah %s | sort -h | tail -20", state_word(f->doctor, "", &word));
}

/* ---- .gitignore -------------------------------------------------------------------------------------------- */

/* Whether a file has one of the lines. */
static bool has_line(int dir, const char *name, const char *const *lines)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (fs_read_file(dir, name, IGNORE_MAX, &text) < 0)
        return false;
    for (const char *at = buf_str(&text); *at;) {
        size_t len = strcspn(at, "\r\n");
        for (const char *const *line = lines; *line; line++)
            if (strlen(*line) == len && strncmp(at, *line, len) == 0)
                return true;
        at += len + (at[len] != '\0');
    }
    return false;
}

/* `init` adds the lines that are missing and touches nothing else. */
static bool repair_ignore(struct finding *f)
{
    struct workspace_place found, made;
    struct tsk_error err;
    bool created;
    const struct tsk_workspace *ws = f->doctor->ws;
    return finding_fixes(f) && workspace_find(ws->root, &found, &err) == 0 &&
           strcmp(found.state_path, ws->state_path) == 0 && workspace_init(ws->root, &made, &created, &err) == 0;
}

void check_gitignore(struct finding *f)
{
    static const char *const all[] = {"*", "/*", NULL};
    static const char *const sprint[] = {"/.sprint-running", ".sprint-running", "/.sprint-running*", ".sprint-running*",
                                         NULL};
    struct stat st;
    const struct tsk_workspace *ws = f->doctor->ws;
    int root CLEANUP_FD = fs->openat(AT_FDCWD, ws->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (root < 0 || fs->fstatat(root, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0) {
        f->is_absent = true; /* no git here (or a bare repository): nothing has to be ignored */
        return;
    }
    finding_summary(f, "doctor_ignore_good", NULL);
    bool has_state = has_line(ws->state_dir, ".gitignore", all), has_sprint = has_line(root, ".gitignore", sprint);
    if (has_state && has_sprint)
        return;
    if (repair_ignore(f)) {
        finding_fixed(f, "doctor_ignore_fixed", NULL);
        return;
    }
    if (!has_state)
        finding_add(f, DOCTOR_WARN, "doctor_ignore_state", "path", ".aiflow/.gitignore", NULL);
    if (!has_sprint)
        finding_add(f, DOCTOR_WARN, "doctor_ignore_sprint", "path", ".gitignore", NULL);
    finding_fix_ours(f, "init");
}

/* ---- what `serve` leaves ----------------------------------------------------------------------------------- */

/* Whether somebody listens: 1, 0, -1 (unknown). */
static int has_listener(int state_dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/server.sock", state_dir);
    int fd CLEANUP_FD = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EAGAIN)
        return 1;
    return errno == ECONNREFUSED ? 0 : -1;
}

static void look_at_socket(struct finding *f, const struct stat *st)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    int state_dir = f->doctor->ws->state_dir;
    if (!S_ISSOCK(st->st_mode)) {
        finding_add(f, DOCTOR_WARN, "doctor_no_socket", "path", "server.sock", NULL);
    } else if (has_listener(state_dir) != 0) {
        finding_summary(f, "doctor_server_alive", NULL);
        return;
    } else if (finding_fixes(f) && fs->unlinkat(state_dir, "server.sock", 0) == 0) {
        finding_fixed(f, "doctor_socket_fixed", NULL);
        return;
    } else {
        finding_add(f, DOCTOR_WARN, "doctor_socket_stale", NULL);
    }
    finding_fix(f, "rm -f %s", state_word(f->doctor, "server.sock", &word));
}

void check_server(struct finding *f)
{
    static const struct place token = {"server.token", false, true};
    struct stat of_socket, of_token;
    int state_dir = f->doctor->ws->state_dir;
    bool has_socket = fs->fstatat(state_dir, "server.sock", &of_socket, AT_SYMLINK_NOFOLLOW) == 0;
    bool has_token = fs->fstatat(state_dir, token.name, &of_token, AT_SYMLINK_NOFOLLOW) == 0;
    f->is_absent = !has_socket && !has_token;
    finding_summary(f, "doctor_server_good", NULL);
    if (has_socket)
        look_at_socket(f, &of_socket);
    if (has_token && has_right_type(f, &token, &of_token))
        look_at_mode(f, &token, &of_token);
}
