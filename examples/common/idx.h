/* idx.h - reads IDX files of bytes, the format of the MNIST family: images (count x rows x columns) and labels (count).

       idx images;
       char why[IDX_WHY];
       if (!idx_open(&images, path, 3, why)) ..;            why says what is wrong with the file
       if (!idx_read(&images, n, pixels, why)) ..;          item n: images.item bytes
       idx_close(&images);

   The format: two zero bytes, 08 for unsigned bytes, the number of dimensions; then each dimension as a 32-bit big-endian
   number; then the bytes. A file is taken only if its length is exactly what its head says; nothing is guessed.
   Items are read one by one, so that a large file costs no memory. Include after program.h. */
#ifndef EXAMPLES_IDX_H
#define EXAMPLES_IDX_H

#include <limits.h>

enum { IDX_WHY = 160, IDX_DIMS = 3 };

typedef struct {
    FILE *file;
    int dims;
    long size[IDX_DIMS]; /* count, rows, columns */
    long item;           /* bytes of one item */
    long head;           /* bytes before the first */
} idx;

static inline int idx_refuse(idx *x, char *why, const char *format, long a, long b)
{
    snprintf(why, IDX_WHY, format, a, b);
    if (x->file) fclose(x->file);
    x->file = NULL;
    return 0;
}

/* 1, or 0 with the reason in why (IDX_WHY bytes). */
static inline int idx_open(idx *x, const char *path, int dims, char *why)
{
    unsigned char head[4 + 4 * IDX_DIMS];
    long length, bytes = 1;
    size_t got;
    int i;
    memset(x, 0, sizeof *x);
    x->file = fopen(path, "rb");
    if (!x->file) {
        snprintf(why, IDX_WHY, "%s", strerror(errno));
        return 0;
    }
    x->dims = dims, x->head = 4 + 4 * (long)dims;
    got = fread(head, 1, (size_t)x->head, x->file);
    if (got >= 2 && ((head[0] == 0x1f && head[1] == 0x8b) || (head[0] == 0xfd && head[1] == '7')))
        return idx_refuse(x, why, "is compressed; unpack it first", 0, 0);
    if (got < 4 || head[0] || head[1]) return idx_refuse(x, why, "is no IDX file: it does not begin with two zero bytes", 0, 0);
    if (head[2] != 8) return idx_refuse(x, why, "holds type %ld; only unsigned bytes (8) are read", head[2], 0);
    if (head[3] != dims) return idx_refuse(x, why, "has %ld dimensions, not %ld", head[3], dims);
    if (got < (size_t)x->head) return idx_refuse(x, why, "ends within its head, after %ld bytes", (long)got, 0);
    for (i = 0; i < dims; i++) {
        const unsigned char *b = head + 4 + 4 * i;
        const unsigned long size = (unsigned long)b[0] << 24 | (unsigned long)b[1] << 16 | (unsigned long)b[2] << 8 | b[3];
        if (size < 1 || size > INT_MAX) return idx_refuse(x, why, "says that dimension %ld is %ld", i + 1, (long)size);
        x->size[i] = (long)size;
        if (bytes > (LONG_MAX - x->head) / x->size[i]) return idx_refuse(x, why, "claims a size that no file can have", 0, 0);
        bytes *= x->size[i];
    }
    x->item = bytes / x->size[0];
    if (fseek(x->file, 0, SEEK_END) || (length = ftell(x->file)) < 0) return idx_refuse(x, why, "cannot be searched", 0, 0);
    if (length != x->head + bytes)
        return idx_refuse(x, why, "has %ld bytes where its head promises %ld", length, x->head + bytes);
    return 1;
}

/* Item n into out (item bytes). 1, or 0 with the reason. */
static inline int idx_read(idx *x, long n, unsigned char *out, char *why)
{
    if (n < 0 || n >= x->size[0]) {
        snprintf(why, IDX_WHY, "has no item %ld", n);
        return 0;
    }
    if (!fseek(x->file, x->head + n * x->item, SEEK_SET) && fread(out, 1, (size_t)x->item, x->file) == (size_t)x->item)
        return 1;
    snprintf(why, IDX_WHY, "cannot be read at item %ld", n);
    return 0;
}

static inline void idx_close(idx *x)
{
    if (x->file) fclose(x->file);
    x->file = NULL;
}

#endif /* EXAMPLES_IDX_H */
