/* picture.h - grey pictures: tiles on a sheet, written as PGM, as PNG, or as a PNG inside a page.

       picture p = picture_new(width, height);                        white
       picture_tile(&p, left, top, rows, cols, values, low, high);    low is white, high is black
       picture_write(&p, "name.pgm");                                 or .png; the name decides
       picture_embed(&p, file, "what it shows");                      <img> with the PNG inside, for a page
       picture_free(&p);

   The PNG is not compressed (stored deflate blocks): a byte per pixel, and no code to speak of. Include after pu.h and
   program.h. */
#ifndef EXAMPLES_PICTURE_H
#define EXAMPLES_PICTURE_H

typedef struct {
    long width, height;
    unsigned char *at; /* row by row, 0 black .. 255 white */
} picture;

static inline picture picture_new(long width, long height)
{
    picture p;
    p.width = width, p.height = height;
    p.at = (unsigned char *)malloc((size_t)(width * height));
    if (!p.at) fail(1, "memory", "there is not enough for the picture");
    memset(p.at, 255, (size_t)(width * height));
    return p;
}

static inline void picture_free(picture *p)
{
    free(p->at);
    p->at = NULL;
}

/* rows x cols values with their upper left corner at (left, top); what is not a number comes out grey. */
static inline void picture_tile(picture *p, long left, long top, pu_int rows, pu_int cols, const pu_real *values, double low,
                                double high)
{
    pu_int i, j;
    for (i = 0; i < rows; i++)
        for (j = 0; j < cols; j++) {
            const double x = 255 * (high - (double)values[i * cols + j]) / (high - low);
            if (top + i >= p->height || left + j >= p->width) continue;
            p->at[(top + i) * p->width + left + j] = (unsigned char)(x >= 255 ? 255 : x <= 0 ? 0 : x == x ? x + 0.5 : 128);
        }
}

/* ---- PNG: signature, then chunks of length, name, bytes, CRC ---- */

typedef struct {
    unsigned char *at;
    size_t length;
} picture_bytes;

static inline void picture_put32(unsigned char *to, unsigned long x)
{
    to[0] = (unsigned char)(x >> 24 & 255), to[1] = (unsigned char)(x >> 16 & 255), to[2] = (unsigned char)(x >> 8 & 255);
    to[3] = (unsigned char)(x & 255);
}

/* Closes a chunk whose name and `count` bytes have been put at to + 4; returns what comes after. */
static inline unsigned char *picture_chunk(unsigned char *to, size_t count)
{
    unsigned long crc = 0xffffffffUL;
    size_t i;
    int bit;
    picture_put32(to, (unsigned long)count);
    for (i = 0; i < count + 4; i++)
        for (crc ^= to[4 + i], bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320UL : crc >> 1;
    picture_put32(to + 8 + count, crc ^ 0xffffffffUL);
    return to + 12 + count;
}

/* The whole file, to be freed. */
static inline picture_bytes picture_png(const picture *p)
{
    static const unsigned char signature[8] = {137, 'P', 'N', 'G', 13, 10, 26, 10};
    static const unsigned char depth[5] = {8, 0, 0, 0, 0}; /* 8 bits, grey, the only methods there are, not interlaced */
    const size_t line = (size_t)p->width + 1, raw = line * (size_t)p->height, blocks = (raw + 65534) / 65535;
    picture_bytes out;
    unsigned char *to, *chunk;
    unsigned long a = 1, b = 0; /* Adler-32 */
    size_t i;
    out.length = 8 + 25 + 12 + 2 + 5 * blocks + raw + 4 + 12;
    out.at = to = (unsigned char *)malloc(out.length);
    if (!out.at) fail(1, "memory", "there is not enough for the picture");
    memcpy(to, signature, 8), to += 8;
    memcpy(to + 4, "IHDR", 4), picture_put32(to + 8, (unsigned long)p->width), picture_put32(to + 12, (unsigned long)p->height);
    memcpy(to + 16, depth, 5), to = picture_chunk(to, 13);
    chunk = to, memcpy(to + 4, "IDAT", 4), to += 8;
    *to++ = 0x78, *to++ = 0x01;
    for (i = 0; i < raw; i++) { /* lines of a filter byte 0 and the pixels, cut into stored blocks */
        const unsigned char x = i % line ? p->at[i / line * (size_t)p->width + i % line - 1] : 0;
        if (i % 65535 == 0) {
            const size_t n = raw - i < 65535 ? raw - i : 65535;
            *to++ = n == raw - i, *to++ = (unsigned char)(n & 255), *to++ = (unsigned char)(n >> 8);
            *to++ = (unsigned char)(~n & 255), *to++ = (unsigned char)(~n >> 8 & 255);
        }
        *to++ = x, a = (a + x) % 65521, b = (b + a) % 65521;
    }
    picture_put32(to, b << 16 | a), to = picture_chunk(chunk, (size_t)(to + 4 - chunk - 8));
    memcpy(to + 4, "IEND", 4), picture_chunk(to, 0);
    return out;
}

static inline int picture_ends(const char *path, const char *end)
{
    return strlen(path) >= strlen(end) && !strcmp(path + strlen(path) - strlen(end), end);
}

/* PNG for names that end in .png, PGM for .pgm. */
static inline void picture_write(const picture *p, const char *path)
{
    FILE *file = file_open(path);
    if (picture_ends(path, ".png")) {
        picture_bytes png = picture_png(p);
        fwrite(png.at, 1, png.length, file);
        free(png.at);
    } else {
        fprintf(file, "P5\n%ld %ld\n255\n", p->width, p->height);
        fwrite(p->at, 1, (size_t)(p->width * p->height), file);
    }
    file_close(file, path);
}

/* An <img> element with the picture in it. */
static inline void picture_embed(const picture *p, FILE *file, const char *alt)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    picture_bytes png = picture_png(p);
    size_t i;
    fprintf(file, "<img alt=\"%s\" width=\"%ld\" height=\"%ld\" src=\"data:image/png;base64,", alt, p->width, p->height);
    for (i = 0; i < png.length; i += 3) {
        const size_t left = png.length - i;
        const unsigned x =
            (unsigned)png.at[i] << 16 | (left > 1 ? (unsigned)png.at[i + 1] << 8 : 0) | (left > 2 ? png.at[i + 2] : 0);
        fputc(digit[x >> 18], file), fputc(digit[x >> 12 & 63], file);
        fputc(left > 1 ? digit[x >> 6 & 63] : '=', file), fputc(left > 2 ? digit[x & 63] : '=', file);
    }
    fprintf(file, "\">\n");
    free(png.at);
}

#endif /* EXAMPLES_PICTURE_H */
