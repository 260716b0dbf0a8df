#include "base/lockers.h"
#include "base/fs.h"
#include "base/ident.h"
#include "base/word.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The lock lines of /proc/…/fdinfo name a file by device and inode, "fe:00:1234". On some file systems (overlay, btrfs) fstat
 * returns another device. So we take a shared lock of our own for a moment, on byte 2, which no protocol uses, and read the name
 * in its line. If somebody has locked the whole file, we use fstat. */
#define PROBE_BYTE     2
#define FILE_NAME_SIZE 64

struct lock_line {
    const char *access, *file;
    long long start, end;
};

/* "lock:  1: OFDLCK ADVISORY WRITE -1 fe:00:1234 0 EOF"; the text is cut into its words. */
static bool lock_line_parse(char *text, struct lock_line *ret)
{
    char *word[9];
    if (words_split(text, word, 9) < 9 || strcmp(word[0], "lock:") != 0 || strcmp(word[2], "OFDLCK") != 0)
        return false;
    *ret = (struct lock_line){.access = word[4], .file = word[6], .start = strtoll(word[7], NULL, 10)};
    ret->end = strcmp(word[8], "EOF") == 0 ? INT64_MAX : strtoll(word[8], NULL, 10);
    return true;
}

/* Calls `wanted` for each lock line of a descriptor until it returns true. */
static bool find_lock_line(const char *fdinfo, bool (*wanted)(const struct lock_line *, void *), void *data)
{
    char text[256];
    struct lock_line line;
    bool found = false;
    FILE *info = fopen(fdinfo, "re");
    while (info && !found && fgets(text, sizeof text, info))
        found = lock_line_parse(text, &line) && wanted(&line, data);
    if (info)
        fclose(info);
    return found;
}

static bool is_probe(const struct lock_line *line, void *data)
{
    if (line->start > PROBE_BYTE || line->end < PROBE_BYTE)
        return false;
    return snprintf(data, FILE_NAME_SIZE, "%s", line->file) < FILE_NAME_SIZE;
}

static bool file_name_of(int fd, char name[FILE_NAME_SIZE])
{
    char path[64];
    struct stat st;
    if (fs_lock_try(fd, F_RDLCK, PROBE_BYTE, 1) < 0) {
        bool is_known = fs->fstat(fd, &st) == 0;
        if (is_known)
            snprintf(name, FILE_NAME_SIZE, "%02x:%02x:%llu", major(st.st_dev), minor(st.st_dev),
                     (unsigned long long)st.st_ino);
        return is_known;
    }
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    bool found = find_lock_line(path, is_probe, name);
    fs_lock_try(fd, F_UNLCK, PROBE_BYTE, 1);
    return found;
}

struct locker_search {
    char file[FILE_NAME_SIZE];
    off_t byte;
    bool is_reader_meant;
};

static bool is_in_the_way(const struct lock_line *line, void *data)
{
    const struct locker_search *search = data;
    return (search->is_reader_meant || strcmp(line->access, "WRITE") == 0) && strcmp(line->file, search->file) == 0 &&
           line->start <= search->byte && line->end >= search->byte;
}

static bool process_has_lock(const char *pid, struct locker_search *search)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/fdinfo", pid);
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        char file[600];
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        found = entry->d_name[0] != '.' && find_lock_line(file, is_in_the_way, search);
    }
    if (dir)
        closedir(dir);
    return found;
}

size_t lockers_find(int fd, off_t byte, short type, pid_t *pids, size_t max)
{
    struct locker_search search = {.byte = byte, .is_reader_meant = type != F_WRLCK};
    size_t count = 0;
    if (!file_name_of(fd, search.file))
        return 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && count < max && (entry = readdir(dir));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && pid != getpid() && process_has_lock(entry->d_name, &search))
            pids[count++] = pid;
    }
    if (dir)
        closedir(dir);
    return count;
}

/* On some file systems (overlay, btrfs) the kernel's list has another device than fstat: then the inode counts, if only one process fits. */
pid_t lockers_find_posix(int dir, const char *name, off_t byte)
{
    char text[256], file[FILE_NAME_SIZE];
    struct stat st;
    pid_t found = 0, similar = 0;
    FILE *locks = fs->fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? NULL : fopen("/proc/locks", "re");
    if (!locks)
        return 0;
    snprintf(file, sizeof file, "%02x:%02x:%llu", major(st.st_dev), minor(st.st_dev), (unsigned long long)st.st_ino);
    const char *inode = strrchr(file, ':');
    while (!found && fgets(text, sizeof text, locks)) { /* "1: POSIX  ADVISORY  WRITE 812 fe:00:1234 120 120" */
        char *word[8], *colon;
        if (words_split(text, word, 8) < 8 || strcmp(word[1], "POSIX") != 0 || strcmp(word[3], "WRITE") != 0 ||
            !(colon = strrchr(word[5], ':')) || strcmp(colon, inode) != 0 || strtoll(word[6], NULL, 10) > byte)
            continue;
        pid_t pid = (pid_t)strtol(word[4], NULL, 10);
        bool is_there = strcmp(word[7], "EOF") == 0 || strtoll(word[7], NULL, 10) >= byte;
        if (!is_there || pid <= 0 || pid == getpid())
            continue;
        if (strcmp(word[5], file) == 0)
            found = pid;
        similar = similar == 0 || similar == pid ? pid : -1;
    }
    fclose(locks);
    return found ? found : similar > 0 ? similar : 0;
}

int lockers_refuse(pid_t pid, enum tsk_code code, const char *named, const char *unnamed, struct tsk_error *err)
{
    char digits[16], name[64] = "?";
    if (!pid)
        return error_set(err, code, unnamed, NULL);
    snprintf(digits, sizeof digits, "%d", (int)pid);
    proc_name(pid, name, sizeof name);
    error_set(err, code, named, "pid", digits, "name", name, NULL);
    error_add_next(err, "ps -p %d", (int)pid);
    return -1;
}
