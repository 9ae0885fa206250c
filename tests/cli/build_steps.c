/* Runs a package that test_build.sh made of a model with steps: (x: f32 of rank 3) -> (y, h). Its
 * name is P, its header is included from outside. Arguments: the elements of x as bytes in a file,
 * the three sizes of x, and the file that the bytes of y, then of h, are written to. The status is
 * that of the package's functions, 99 when a file fails.
 */
#include <stdio.h>
#include <stdlib.h>

#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)

static void *room(uint64_t bytes)
{
    return aligned_alloc(64, (size_t)(bytes / 64 + 1) * 64);
}

static int read_all(const char *path, void *data, size_t bytes)
{
    FILE *file = fopen(path, "rb");
    const int ok = file != NULL && fread(data, 1, bytes, file) == bytes;
    return file != NULL && fclose(file) == 0 && ok;
}

int main(int argc, char **argv)
{
    NAMED(P, _inputs) in = {0};
    NAMED(P, _outputs) out = {0};
    size_t bytes = sizeof(float);
    for (int a = 0; argc == 6 && a < 3; a++) {
        in.x.shape[a] = strtoll(argv[2 + a], NULL, 10);
        bytes *= (size_t)in.x.shape[a];
    }
    float *x = room(bytes);
    int status = NAMED(P, _sizes)(&in, &out, NULL);
    if (argc != 6 || !read_all(argv[1], x, bytes) || status != 0) {
        return status != 0 ? status : 99;
    }
    in.x.data = x;
    out.y.data = room(out.y.bytes);
    out.h.data = room(out.h.bytes);
    status = NAMED(P, _run)(&in, &out, NULL, 0);
    FILE *file = fopen(argv[5], "wb");
    if (file == NULL || fwrite(out.y.data, 1, out.y.bytes, file) != out.y.bytes ||
        fwrite(out.h.data, 1, out.h.bytes, file) != out.h.bytes || fclose(file) != 0) {
        return 99;
    }
    free(x);
    free(out.y.data);
    free(out.h.data);
    return status;
}
