/* Replays files through a fuzz target, for builds without libFuzzer: `yaml_replay
 * tests/fuzz/corpus/yaml/...`. A directory stands for the files in it. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rbe");
    struct stat st;
    if (!file || fstat(fileno(file), &st) < 0) {
        perror(path);
        return 1;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size + 1); /* exactly the input's size for the sanitizer, but never zero */
    size_t len = data ? fread(data, 1, size, file) : 0;
    fclose(file);
    LLVMFuzzerTestOneInput(data, len);
    free(data);
    return 0;
}

static int replay(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return replay_file(path);
    int failed = 0, count = 0;
    char name[4096];
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        failed |= replay_file(name);
        count++;
    }
    closedir(dir);
    printf("%s: %d inputs\n", path, count);
    return failed || count == 0;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;
    for (int i = 1; i < argc; i++)
        failed |= replay(argv[i]);
    return failed;
}
