#include "base/error.h"
#include "base/listing.h"
#include "harness/test.h"
#include "unit/faulty.h"
#include "unit/scene.h"

#include <dirent.h>

enum { CONTENT_SIZE = 20000 };

static void fill(char *content, char letter)
{
    memset(content, letter, CONTENT_SIZE);
}

static void replace_often(const struct child *me, void *arg)
{
    static char content[CONTENT_SIZE];
    (void)arg;
    child_say(me, 'r');
    for (int i = 0; i < 400; i++) {
        fill(content, (char)('a' + i % 26));
        if (fs_replace_file(AT_FDCWD, "file", 0600, content, CONTENT_SIZE) < 0)
            _exit(1);
    }
}

TEST(a_replaced_file_has_the_old_content_or_the_new_at_every_instant)
{
    static char content[CONTENT_SIZE];
    int status = 0;
    fill(content, 'a');
    ASSERT_INT(fs_replace_file(AT_FDCWD, "file", 0600, content, CONTENT_SIZE), 0);
    struct child child = child_start(replace_often, NULL);
    ASSERT_INT(child_hear(&child), 'r');
    while (waitpid(child.pid, &status, WNOHANG) == 0) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        ASSERT_INT(fs_read_file(AT_FDCWD, "file", CONTENT_SIZE, &b), 0);
        ASSERT_INT(b.len, CONTENT_SIZE);
        fill(content, b.data[0]);
        ASSERT(memcmp(b.data, content, CONTENT_SIZE) == 0);
    }
    ASSERT_INT(status, 0);
    close(child.say);
    close(child.hear);
}

static int count_entries(void)
{
    int count = 0;
    struct listing names CLEANUP(listing_close);
    ASSERT_INT(listing_open(&names, AT_FDCWD, ".", 0), 0);
    while (listing_next(&names))
        count++;
    return count;
}

TEST(a_listing_has_all_names_sorted_on_request_and_none_when_it_could_not_be_opened)
{
    struct listing names CLEANUP(listing_close), none CLEANUP(listing_close);
    ASSERT_INT(mkdir("d", 0700), 0);
    ASSERT_INT(mkdir("d/b", 0700), 0);
    ASSERT_INT(symlink("b", "d/a"), 0);
    ASSERT_INT(symlink("d", "link"), 0);
    ASSERT_INT(listing_open(&names, AT_FDCWD, "link", LISTING_SORTED), 0);
    ASSERT_STR(listing_next(&names), "a");
    ASSERT_INT(names.type, DT_LNK);
    ASSERT_STR(listing_next(&names), "b");
    ASSERT(!listing_next(&names));
    ASSERT_INT(listing_open(&none, AT_FDCWD, "link", LISTING_SORTED | LISTING_NO_LINK), -1);
    ASSERT_INT(none.fd, -1);
    ASSERT(!listing_next(&none));
    ASSERT_INT(count_entries(), 2);
}

static int fail_rename(int from, const char *old, int to, const char *new, unsigned flags)
{
    (void)from, (void)old, (void)to, (void)new, (void)flags;
    errno = EIO;
    return -1;
}

static ssize_t fail_write(int fd, const void *data, size_t len)
{
    (void)fd, (void)data, (void)len;
    errno = ENOSPC;
    return -1;
}

static int refuse_tmpfile(int dir, const char *path, int flags, mode_t mode)
{
    if ((flags & O_TMPFILE) != O_TMPFILE)
        return openat(dir, path, flags, mode);
    errno = EOPNOTSUPP;
    return -1;
}

TEST(a_failed_replacement_leaves_the_old_content_and_no_other_name)
{
    static struct fs_calls calls[3];
    for (size_t i = 0; i < 3; i++)
        calls[i] = fs_system_calls;
    calls[0].renameat2 = fail_rename;
    calls[1].write = fail_write;
    calls[2].write = fail_write;
    calls[2].openat = refuse_tmpfile;
    scene_write("file", "old");
    for (size_t i = 0; i < 3; i++) {
        fs = &calls[i];
        ASSERT_INT(fs_replace_file(AT_FDCWD, "file", 0600, "new", 3), -1);
        ASSERT_INT(errno, i == 0 ? EIO : ENOSPC);
        fs = &fs_system_calls;
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        ASSERT_INT(fs_read_file(AT_FDCWD, "file", 100, &b), 0);
        ASSERT_STR(buf_str(&b), "old");
        ASSERT_INT(count_entries(), 1);
    }
}

TEST(a_replaced_file_gets_the_mode_that_was_asked_for_and_replaces_a_link_itself)
{
    struct stat st;
    umask(022);
    scene_write("target", "kept");
    ASSERT_INT(symlink("target", "link"), 0);
    ASSERT_INT(fs_replace_file(AT_FDCWD, "link", 0600, "new", 3), 0);
    ASSERT_INT(lstat("link", &st), 0);
    ASSERT(S_ISREG(st.st_mode));
    ASSERT_INT(st.st_mode & 07777, 0600);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    ASSERT_INT(fs_read_file(AT_FDCWD, "target", 100, &b), 0);
    ASSERT_STR(buf_str(&b), "kept");
}

static void publish_twice(void)
{
    char first_name[FS_PRIVATE_NAME_MAX], second_name[FS_PRIVATE_NAME_MAX];
    int first CLEANUP_FD = fs_temp_open(AT_FDCWD, 0600, first_name);
    int second CLEANUP_FD = fs_temp_open(AT_FDCWD, 0600, second_name);
    ASSERT(first >= 0 && second >= 0);
    ASSERT_INT(fs_write_all(first, "first", 5), 0);
    ASSERT_INT(fs_write_all(second, "second", 6), 0);
    ASSERT_INT(fs_publish(first, first_name, AT_FDCWD, "name"), 0);
    ASSERT_INT(fs_publish(second, second_name, AT_FDCWD, "name"), -1);
    ASSERT_INT(errno, EEXIST);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    ASSERT_INT(fs_read_file(AT_FDCWD, "name", 100, &b), 0);
    ASSERT_STR(buf_str(&b), "first");
}

TEST(publishing_never_replaces_what_is_there)
{
    publish_twice();
}

TEST(publishing_works_alike_where_unnamed_files_do_not_exist)
{
    static struct fs_calls calls;
    calls = fs_system_calls;
    calls.openat = refuse_tmpfile;
    fs = &calls;
    publish_twice();
}

TEST(publishing_does_not_follow_a_dangling_link)
{
    char name[FS_PRIVATE_NAME_MAX];
    int fd CLEANUP_FD = fs_temp_open(AT_FDCWD, 0600, name);
    ASSERT(fd >= 0);
    ASSERT_INT(symlink("nowhere", "name"), 0);
    ASSERT_INT(fs_publish(fd, name, AT_FDCWD, "name"), -1);
    ASSERT_INT(errno, EEXIST);
    ASSERT(!scene_exists("nowhere"));
}

TEST(only_regular_files_are_read)
{
    static const struct {
        const char *path;
        int error;
    } rows[] = {{"link", ELOOP}, {"dir", EISDIR}, {"fifo", EINVAL}, {"absent", ENOENT}, {"/dev/null", EINVAL}};
    scene_write("file", "x");
    ASSERT_INT(symlink("file", "link"), 0);
    ASSERT_INT(mkdir("dir", 0700), 0);
    ASSERT_INT(mkfifo("fifo", 0600), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        ASSERT_INT(fs_read_file(AT_FDCWD, rows[i].path, 100, &b), -1);
        ASSERT_INT(errno, rows[i].error);
    }
}

TEST(a_file_is_read_up_to_its_stated_maximum_and_no_byte_more)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 8192, 10000};
    static char text[10001];
    memset(text, 'x', sizeof text - 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct buf exact CLEANUP(buf_clear) = BUF_INIT;
        struct buf less CLEANUP(buf_clear) = BUF_INIT;
        text[sizes[i]] = '\0';
        scene_write("file", text);
        text[sizes[i]] = 'x';
        ASSERT_INT(fs_read_file(AT_FDCWD, "file", sizes[i], &exact), 0);
        ASSERT_INT(exact.len, sizes[i]);
        if (!sizes[i])
            continue;
        ASSERT_INT(fs_read_file(AT_FDCWD, "file", sizes[i] - 1, &less), -1);
        ASSERT_INT(errno, EFBIG);
    }
}

static unsigned interrupted_calls;

static ssize_t write_in_crumbs(int fd, const void *data, size_t len)
{
    if (interrupted_calls++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return write(fd, data, len > 3 ? 3 : len);
}

TEST(short_and_interrupted_writes_are_continued)
{
    static struct fs_calls calls;
    calls = fs_system_calls;
    calls.write = write_in_crumbs;
    fs = &calls;
    ASSERT_INT(fs_replace_file(AT_FDCWD, "file", 0600, "0123456789", 10), 0);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    ASSERT_INT(fs_read_file(AT_FDCWD, "file", 100, &b), 0);
    ASSERT_STR(buf_str(&b), "0123456789");
}

TEST(directories_are_made_with_all_their_parents_and_only_for_the_owner)
{
    struct stat st;
    umask(0);
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "a/b/c"), 0);
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "a/b/c"), 0);
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "a/b/c/d/"), 0);
    ASSERT_INT(stat("a/b/c/d", &st), 0);
    ASSERT(S_ISDIR(st.st_mode));
    ASSERT_INT(st.st_mode & 07777, 0700);
    scene_write("file", "");
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "file/x"), -1);
    ASSERT_INT(errno, ENOTDIR);
}

TEST(a_path_that_is_too_long_is_refused)
{
    static char path[5000];
    memset(path, 'a', sizeof path - 1);
    ASSERT_INT(fs_make_dirs(AT_FDCWD, path), -1);
    ASSERT_INT(errno, ENAMETOOLONG);
}

TEST(private_names_are_recognised_and_differ)
{
    char first[FS_PRIVATE_NAME_MAX], second[FS_PRIVATE_NAME_MAX];
    fs_private_name(first);
    fs_private_name(second);
    ASSERT(strcmp(first, second) != 0);
    ASSERT(fs_is_private_name(first) && first[0] == '.' && !strchr(first, '/'));
    ASSERT(!fs_is_private_name(".sprint-running"));
    ASSERT(!fs_is_private_name("name.a.lock.json"));
    ASSERT(!fs_is_private_name(""));
}

static int open_lock_file(void)
{
    int fd = open("locks", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT(fd >= 0);
    return fd;
}

TEST(byte_locks_belong_to_the_descriptor_not_to_the_process)
{
    int a CLEANUP_FD = open_lock_file(), b CLEANUP_FD = open_lock_file();
    ASSERT_INT(fs_lock_try(a, F_WRLCK, 5, 1), 0);
    ASSERT_INT(fs_lock_try(a, F_WRLCK, 5, 1), 0); /* again by the same one */
    ASSERT_INT(fs_lock_try(b, F_WRLCK, 5, 1), -1);
    ASSERT_INT(errno, EAGAIN);
    ASSERT_INT(fs_lock_try(b, F_RDLCK, 5, 1), -1);
    ASSERT_INT(fs_lock_try(b, F_WRLCK, 4, 1), 0);
    ASSERT_INT(fs_lock_try(b, F_WRLCK, 6, 1), 0);
    ASSERT_INT(fs_lock_try(a, F_UNLCK, 5, 1), 0);
    ASSERT_INT(fs_lock_try(b, F_WRLCK, 5, 1), 0);
}

TEST(closing_another_descriptor_of_the_file_drops_no_lock)
{
    int a CLEANUP_FD = open_lock_file(), b CLEANUP_FD = open_lock_file();
    ASSERT_INT(fs_lock_try(a, F_WRLCK, 0, 1), 0);
    int c = open_lock_file();
    close(c);
    ASSERT_INT(fs_lock_probe(b, F_WRLCK, 0, 1, NULL), 1);
}

TEST(readers_share_and_exclude_a_writer)
{
    int a CLEANUP_FD = open_lock_file(), b CLEANUP_FD = open_lock_file(), c CLEANUP_FD = open_lock_file();
    ASSERT_INT(fs_lock_try(a, F_RDLCK, 0, 1), 0);
    ASSERT_INT(fs_lock_try(b, F_RDLCK, 0, 1), 0);
    ASSERT_INT(fs_lock_probe(c, F_RDLCK, 0, 1, NULL), 0);
    ASSERT_INT(fs_lock_probe(c, F_WRLCK, 0, 1, NULL), 1);
    ASSERT_INT(fs_lock_try(c, F_WRLCK, 0, 1), -1);
}

TEST(a_probe_finds_a_lock_in_its_range_and_changes_nothing)
{
    int a CLEANUP_FD = open_lock_file(), b CLEANUP_FD = open_lock_file();
    off_t start = -1;
    ASSERT_INT(fs_lock_try(a, F_WRLCK, 40, 1), 0);
    ASSERT_INT(fs_lock_probe(b, F_RDLCK, 0, 40, &start), 0);
    ASSERT_INT(start, -1);
    ASSERT_INT(fs_lock_probe(b, F_RDLCK, 0, 0, &start), 1);
    ASSERT_INT(start, 40);
    ASSERT_INT(fs_lock_probe(a, F_RDLCK, 0, 0, NULL), 0); /* one's own is no conflict */
    ASSERT_INT(fs_lock_try(b, F_WRLCK, 0, 40), 0);
}

static unsigned long fake_magic;

static int fake_statfs(int fd, struct statfs *st)
{
    (void)fd;
    memset(st, 0, sizeof *st);
    st->f_type = (int)fake_magic; /* the kernel's type is signed: 0xff534d42 comes out negative on 32 bits */
    return 0;
}

TEST(the_file_system_is_judged_by_its_type)
{
    static const struct {
        unsigned long magic;
        enum fs_class class;
        const char *name;
    } rows[] = {{0xef53, FS_LOCAL, "local"},
                {0x01021994, FS_LOCAL, "local"},
                {0x6969, FS_NETWORK, "nfs"},
                {0xff534d42, FS_NETWORK, "cifs"},
                {0xfe534d42, FS_NETWORK, "smb2"},
                {0x00c36400, FS_NETWORK, "ceph"},
                {0x65735546, FS_SINGLE_KERNEL, "fuse"},
                {0x01021997, FS_SINGLE_KERNEL, "9p"},
                {0x6a656a63, FS_SINGLE_KERNEL, "virtiofs"}};
    static struct fs_calls calls;
    calls = fs_system_calls;
    calls.fstatfs = fake_statfs;
    fs = &calls;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum fs_class class = (enum fs_class)9;
        const char *name = NULL;
        fake_magic = rows[i].magic;
        ASSERT_INT(fs_classify(AT_FDCWD, &class, &name), 0);
        ASSERT_INT(class, rows[i].class);
        ASSERT_STR(name, rows[i].name);
    }
}

TEST(whichever_call_of_a_reading_fails_its_errno_is_told)
{
    static const char *const files[] = {"file", "empty"};
    scene_write("file", "text");
    scene_write("empty", "");
    for (size_t i = 0; i < 2; i++)
        for (long n = 1;; n++) {
            struct buf b CLEANUP(buf_clear) = BUF_INIT;
            fault_begin(NULL, n, EIO);
            int result = fs_read_file(AT_FDCWD, files[i], 100, &b), number = errno;
            if (!fault_end()) {
                ASSERT_INT(result, 0);
                ASSERT_INT(n, i == 0 ? 3 : 4);
                break;
            }
            ASSERT_INT(result, -1);
            ASSERT_INT(number, EIO);
        }
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    fault_begin("pread", 1, EINTR);
    ASSERT_INT(fs_read_file(AT_FDCWD, "file", 100, &b), 0);
    ASSERT(fault_end());
    ASSERT_STR(buf_str(&b), "text");
}

TEST(whichever_call_of_a_replacement_fails_the_old_content_stays_alone)
{
    scene_write("file", "old");
    for (int with_names = 0; with_names <= 1; with_names++)
        for (long n = 1;; n++) {
            struct buf b CLEANUP(buf_clear) = BUF_INIT;
            fault_begin(NULL, n, with_names && n == 1 ? EOPNOTSUPP : EROFS);
            int result = fs_replace_file(AT_FDCWD, "file", 0600, "new", 3), number = errno;
            bool has_struck = fault_end();
            ASSERT_INT(fs_read_file(AT_FDCWD, "file", 100, &b), 0);
            ASSERT_STR(buf_str(&b), result == 0 ? "new" : "old");
            ASSERT_INT(count_entries(), 1);
            ASSERT(has_struck || result == 0);
            ASSERT(result == 0 || number == EROFS);
            ASSERT_INT(fs_replace_file(AT_FDCWD, "file", 0600, "old", 3), 0);
            if (!has_struck)
                break;
        }
}

TEST(what_keeps_a_file_from_being_without_a_name_decides_whether_it_gets_one)
{
    static const struct {
        int error;
        bool has_name;
    } table[] = {{EOPNOTSUPP, true}, {EISDIR, true},  {ENOENT, true}, {EINVAL, true},
                 {EROFS, false},     {ENOSPC, false}, {EACCES, false}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char name[FS_PRIVATE_NAME_MAX];
        fault_begin("openat", 1, table[i].error);
        int fd = fs_temp_open(AT_FDCWD, 0600, name), number = errno;
        ASSERT(fault_end());
        ASSERT_INT(fd >= 0, table[i].has_name);
        ASSERT_INT(name[0] != '\0', table[i].has_name);
        if (fd < 0) {
            ASSERT_INT(number, table[i].error);
            continue;
        }
        close(fd);
        ASSERT(fs_is_private_name(name));
        ASSERT_INT(unlink(name), 0);
    }
}

TEST(a_file_gets_its_name_through_proc_where_the_kernel_wants_a_capability_and_else_the_error_stays)
{
    static const struct {
        int error, result;
    } table[] = {{ENOENT, 0}, {EPERM, 0}, {EEXIST, -1}, {EROFS, -1}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char name[FS_PRIVATE_NAME_MAX];
        int fd CLEANUP_FD = fs_temp_open(AT_FDCWD, 0600, name);
        if (fd < 0 || name[0])
            test_skip("no file is without a name here");
        fault_begin("linkat", 1, table[i].error);
        int result = fs_publish(fd, name, AT_FDCWD, "published"), number = errno;
        fault_end();
        ASSERT_INT(result, table[i].result);
        ASSERT(result == 0 || number == table[i].error);
        ASSERT_INT(scene_exists("published"), result == 0);
        if (result == 0)
            ASSERT_INT(unlink("published"), 0);
    }
}

TEST(only_what_certainly_is_not_there_does_not_exist)
{
    scene_write("file", "");
    ASSERT(fs_may_exist(AT_FDCWD, "file") && !fs_may_exist(AT_FDCWD, "absent"));
    ASSERT(fs_may_exist(AT_FDCWD, "file/below")); /* the next call says what is wrong */
    ASSERT_INT(symlink("nowhere", "link"), 0);
    ASSERT(fs_may_exist(AT_FDCWD, "link"));
    fault_begin("fstatat", 1, EACCES);
    ASSERT(fs_may_exist(AT_FDCWD, "absent"));
    ASSERT(fault_end());
}

TEST(a_tree_that_cannot_be_removed_says_so_and_one_that_is_not_there_is_gone)
{
    ASSERT_INT(listing_remove_tree(AT_FDCWD, "absent"), 0);
    scene_write("file", "");
    ASSERT_INT(symlink("dir", "link"), 0);
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "dir/sub/deep"), 0);
    scene_write("dir/sub/file", "");
    ASSERT_INT(listing_remove_tree(AT_FDCWD, "link"), 0);
    ASSERT_INT(listing_remove_tree(AT_FDCWD, "file"), 0);
    ASSERT(!scene_exists("link") && !scene_exists("file") && scene_exists("dir/sub/file"));
    bool has_struck = true;
    long n;
    for (n = 1; has_struck; n++) {
        ASSERT_INT(fs_make_dirs(AT_FDCWD, "dir/sub/deep"), 0);
        scene_write("dir/sub/file", "");
        fault_begin(NULL, n, EBUSY);
        int result = listing_remove_tree(AT_FDCWD, "dir"), number = errno;
        has_struck = fault_end();
        ASSERT_INT(result, has_struck ? -1 : 0);
        ASSERT(!has_struck || (number == EBUSY && scene_exists("dir")));
    }
    ASSERT(!scene_exists("dir") && n > 7);
}
