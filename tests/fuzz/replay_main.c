/* Runs a fuzz target over files without a fuzzer: each argument is a file or a folder of files, in
 * order of their names. Status 0 when every input came back, 1 when there was nothing to run. */
#define _GNU_SOURCE /* scandir, asprintf */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t size = 0, capacity = 0;
    if (file == NULL) {
        fprintf(stderr, "cannot open %s\n", path);
        return 0;
    }
    do {
        capacity = capacity * 2 + 4096;
        data = realloc(data, capacity);
        if (data == NULL) {
            abort();
        }
        size += fread(data + size, 1, capacity - size, file);
    } while (size == capacity);
    fclose(file);
    printf("%s (%zu bytes)\n", path, size);
    fflush(stdout);
    uint8_t *exact = malloc(size ? size : 1); /* so that a read past the end is seen */
    if (exact == NULL) {
        abort();
    }
    memcpy(exact, data, size);
    free(data);
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 1;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int run_path(const char *path)
{
    struct stat st;
    struct dirent **names = NULL;
    int count = 0;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return run_file(path);
    }
    const int n = scandir(path, &names, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        char *inner = NULL;
        if (asprintf(&inner, "%s/%s", path, names[i]->d_name) < 0) {
            abort();
        }
        count += run_path(inner);
        free(inner);
        free(names[i]);
    }
    free(names);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        count += run_path(argv[i]);
    }
    printf("%d inputs replayed\n", count);
    return count > 0 ? 0 : 1;
}
