/* test_files_idx.c - IDX files, good and broken, and the pictures that the examples write. */
#define _POSIX_C_SOURCE 200809L
#include "pu_test.h"
#include "test_common.h"

#include "../examples/common/program.h"
#include "../examples/common/idx.h"
#include "../examples/common/picture.h"

static char path[64];

/* The bytes as a file of its own. */
static void write_file(const unsigned char *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file)) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(2);
    }
}

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9};

TEST good_files(void)
{
    char why[IDX_WHY] = "";
    unsigned char item[6];
    idx x;
    write_file(images, sizeof images);
    ASSERT(idx_open(&x, path, 3, why));
    ASSERT(x.size[0] == 2 && x.size[1] == 2 && x.size[2] == 3 && x.item == 6);
    ASSERT(idx_read(&x, 1, item, why) && item[0] == 7 && item[5] == 255);
    ASSERT(idx_read(&x, 0, item, why) && item[0] == 1 && item[5] == 6);
    ASSERT(!idx_read(&x, 2, item, why) && strstr(why, "no item 2"));
    ASSERT(!idx_read(&x, -1, item, why));
    idx_close(&x);
    write_file(labels, sizeof labels);
    ASSERT(idx_open(&x, path, 1, why));
    ASSERT(x.size[0] == 3 && x.item == 1 && idx_read(&x, 2, item, why) && item[0] == 9);
    idx_close(&x);
    PASS();
}

/* One byte of a good file changed, and what the refusal must speak of. */
TEST wrong_heads(void)
{
    static const struct {
        int at;
        unsigned char value;
        const char *word;
    } wrong[] = {
        {0, 1, "zero bytes"},       {1, 7, "zero bytes"},    {2, 9, "type 9"},         {2, 13, "type 13"},
        {3, 1, "1 dimensions"},     {3, 4, "4 dimensions"},  {4, 128, "dimension 1"},  {4, 1, "promises"},
        {7, 0, "dimension 1 is 0"}, {7, 1, "promises"},      {7, 3, "promises"},       {11, 0, "dimension 2"},
        {15, 0, "dimension 3"},     {15, 4, "promises"},     {12, 255, "dimension 3"}, {0, 0x1f, NULL},
    };
    unsigned char bytes[sizeof images];
    char why[IDX_WHY];
    size_t i;
    idx x;
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memcpy(bytes, images, sizeof images);
        bytes[wrong[i].at] = wrong[i].value;
        if (!wrong[i].word) bytes[1] = 0x8b; /* the first bytes of gzip */
        write_file(bytes, sizeof bytes);
        tc_set_case("byte %d = %d", wrong[i].at, wrong[i].value);
        why[0] = 0;
        TC_ASSERT(!idx_open(&x, path, 3, why) && x.file == NULL);
        TC_ASSERT(strstr(why, wrong[i].word ? wrong[i].word : "compressed") != NULL);
    }
    PASS();
}

TEST wrong_lengths(void)
{
    unsigned char bytes[sizeof images + 1];
    char why[IDX_WHY];
    size_t n;
    idx x;
    memcpy(bytes, images, sizeof images), bytes[sizeof images] = 0;
    for (n = 0; n <= sizeof bytes; n++) {
        if (n == sizeof images) continue;
        write_file(bytes, n);
        tc_set_case("%d bytes", (int)n);
        TC_ASSERT(!idx_open(&x, path, 3, why) && x.file == NULL && why[0] != 0);
    }
    ASSERT(!idx_open(&x, "no/such/file", 3, why) && x.file == NULL && why[0] != 0);
    PASS();
}

/* Sizes whose product does not fit a long, or fits but is not there. */
TEST huge_sizes(void)
{
    unsigned char bytes[sizeof images];
    char why[IDX_WHY];
    idx x;
    int i;
    memcpy(bytes, images, sizeof images);
    for (i = 4; i < 16; i++) bytes[i] = i % 4 ? 255 : 127; /* three times 2^31 - 1 */
    write_file(bytes, sizeof bytes);
    ASSERT(!idx_open(&x, path, 3, why));
    ASSERT(strstr(why, "no file can have") != NULL);
    for (i = 12; i < 16; i++) bytes[i] = i == 15;
    write_file(bytes, sizeof bytes);
    ASSERT(!idx_open(&x, path, 3, why));
    PASS();
}

TEST random_bytes(void)
{
    unsigned char bytes[40];
    char why[IDX_WHY];
    int round, i, opened = 0;
    idx x;
    for (round = 0; round < 2000; round++) {
        size_t n = (size_t)(tc_hash((uint64_t)round) % sizeof bytes);
        memcpy(bytes, images, sizeof images);
        for (i = 0; i < (int)sizeof bytes; i++) { /* half of them keep most of a good head */
            uint64_t h = tc_hash((uint64_t)(round * 64 + i + 100000));
            if (i >= (int)sizeof images || round % 2 || h % 8 == 0) bytes[i] = (unsigned char)(h >> 8);
        }
        write_file(bytes, n);
        if (idx_open(&x, path, 3, why)) {
            ASSERT(x.head + x.size[0] * x.item == (long)n);
            opened++;
            idx_close(&x);
        }
    }
    ASSERT(opened < 20);
    PASS();
}

/* ---- pictures: what was written, read again -------------------------------------------------- */

static unsigned long big(const unsigned char *b)
{
    return (unsigned long)b[0] << 24 | (unsigned long)b[1] << 16 | (unsigned long)b[2] << 8 | b[3];
}

TEST png_holds_the_pixels(long width, long height)
{
    picture p = picture_new(width, height);
    picture_bytes png;
    const unsigned char *at, *end;
    size_t got = 0, line = (size_t)width + 1;
    long i, last = 0, wrong = 0;
    for (i = 0; i < width * height; i++) p.at[i] = (unsigned char)tc_hash((uint64_t)i);
    png = picture_png(&p);
    tc_keep(p.at), tc_keep(png.at);
    tc_set_case("%d x %d", (int)width, (int)height);
    TC_ASSERT(png.length > 60 && !memcmp(png.at, "\211PNG\r\n\032\n", 8));
    TC_ASSERT(big(png.at + 8) == 13 && !memcmp(png.at + 12, "IHDR", 4));
    TC_ASSERT(big(png.at + 16) == (unsigned long)width && big(png.at + 20) == (unsigned long)height);
    at = png.at + 33;
    TC_ASSERT(!memcmp(at + 4, "IDAT", 4));
    end = at + 8 + big(at);
    TC_ASSERT((size_t)(end - png.at) + 16 == png.length); /* its CRC, and IEND */
    TC_ASSERT(!memcmp(end + 4, "\0\0\0\0IEND\256B`\202", 12)); /* IEND's CRC is a known number */
    TC_ASSERT((at[8] * 256 + at[9]) % 31 == 0);                /* zlib's own check */
    at += 10;
    while (!last) { /* stored blocks */
        size_t n = (size_t)at[1] | (size_t)at[2] << 8, j;
        TC_ASSERT(at[0] <= 1 && ((size_t)at[3] | (size_t)at[4] << 8) == (~n & 65535) && at + 5 + n + 4 <= end);
        last = at[0], at += 5;
        for (j = 0; j < n; j++, got++, at++)
            wrong += *at != (got % line ? p.at[got / line * (size_t)width + got % line - 1] : 0);
    }
    TC_ASSERT(got == line * (size_t)height && wrong == 0 && at + 4 == end);
    PASS();
}

TEST tiles(void)
{
    static const pu_real values[4] = {0, 1, 2, -1};
    picture p = picture_new(5, 3);
    tc_keep(p.at);
    picture_tile(&p, 3, 1, 2, 2, values, 0, 1);
    ASSERT(p.at[5 + 3] == 255 && p.at[5 + 4] == 0 && p.at[10 + 3] == 0 && p.at[10 + 4] == 255 && p.at[0] == 255);
    picture_tile(&p, 4, 2, 2, 2, values, -3, 1); /* over the edge: cut off */
    ASSERT(p.at[10 + 4] == 64);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    int file;
    strcpy(path, "test_idx.XXXXXX");
    file = mkstemp(path);
    if (file < 0) {
        fprintf(stderr, "cannot make a temporary file\n");
        return 2;
    }
    (void)fclose(fdopen(file, "wb"));
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(good_files);
    RUN_TEST(wrong_heads);
    RUN_TEST(wrong_lengths);
    RUN_TEST(huge_sizes);
    RUN_TEST(random_bytes);
    RUN_TESTp(png_holds_the_pixels, 1, 1);
    RUN_TESTp(png_holds_the_pixels, 300, 500);
    RUN_TEST(tiles);
    remove(path);
    PU_TEST_MAIN_END();
}
