/* picture.h - pictures, grey or by a scale of colours: tiles on a sheet, written as PGM, as PNG, or as a PNG inside a page.

       picture p = picture_new(width, height);                        white
       picture_tile(&p, left, top, rows, cols, values, low, high);    low is white, high is black
       p.scale = &picture_depth;                                      from now on bytes are places on a scale of colours (PNG):
       picture_map(&p, values, low, high);                            fills it; what is not a number has a colour of its own
       picture_write(&p, "name.pgm");                                 or .png; the name decides
       picture_embed(&p, file, "what it shows");                      <img> with the PNG inside, for a page; the text as HTML has it
       picture_free(&p);

   The PNG is not compressed (stored deflate blocks): a byte per pixel, and no code to speak of. Include after pu.h and
   program.h. */
#ifndef EXAMPLES_PICTURE_H
#define EXAMPLES_PICTURE_H

enum { PICTURE_STOPS = 5, PICTURE_NONE = 255 }; /* of a scale; the byte of what is not a number */

/* Colours at even distances, straight lines between them; and the one of what is not a number. */
typedef struct {
    unsigned char stop[PICTURE_STOPS][3], none[3];
} picture_scale;

/* Lighter is more; of the second, darker is. Both go one way in lightness, for eyes and printers that see no hues. */
static const picture_scale picture_depth = {{{26, 32, 84}, {34, 94, 148}, {44, 152, 138}, {160, 200, 92}, {255, 240, 170}}, {150, 150, 154}};
static const picture_scale picture_doubt = {{{252, 246, 232}, {246, 204, 146}, {222, 130, 82}, {158, 62, 82}, {66, 28, 84}}, {150, 150, 154}};
static const picture_scale picture_light = {{{0, 0, 0}, {64, 64, 64}, {128, 128, 128}, {191, 191, 191}, {255, 255, 255}}, {214, 120, 90}};

typedef struct {
    long width, height;
    unsigned char *at; /* row by row, 0 black .. 255 white; with a scale its places 0 .. 254, and PICTURE_NONE */
    const picture_scale *scale;
} picture;

static inline picture picture_new(long width, long height)
{
    picture p;
    p.width = width, p.height = height, p.scale = NULL;
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

/* The whole picture, by its scale. */
static inline void picture_map(picture *p, const pu_real *values, double low, double high)
{
    long i;
    for (i = 0; i < p->width * p->height; i++) {
        const double x = 254 * ((double)values[i] - low) / (high > low ? high - low : 1);
        p->at[i] = (unsigned char)(x != x ? PICTURE_NONE : x >= 254 ? 254 : x > 0 ? x + 0.5 : 0);
    }
}

/* The colours of bytes 0 .. 255. */
static inline void picture_palette(const picture_scale *scale, unsigned char *to)
{
    int i, k;
    for (i = 0; i < 256; i++)
        for (k = 0; k < 3; k++) {
            const double x = (double)i * (PICTURE_STOPS - 1) / 254;
            const int stop = x >= PICTURE_STOPS - 1 ? PICTURE_STOPS - 2 : (int)x;
            const double part = x - stop, mix = (1 - part) * scale->stop[stop][k] + part * scale->stop[stop + 1][k];
            to[3 * i + k] = i == PICTURE_NONE ? scale->none[k] : (unsigned char)(mix + 0.5);
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
    const unsigned char depth[5] = {8, (unsigned char)(p->scale ? 3 : 0), 0, 0,
                                    0}; /* 8 bits, grey or palette, the only methods, not interlaced */
    const size_t line = (size_t)p->width + 1, raw = line * (size_t)p->height, blocks = (raw + 65534) / 65535;
    picture_bytes out;
    unsigned char *to, *chunk;
    unsigned long a = 1, b = 0; /* Adler-32 */
    size_t i;
    out.length = 8 + 25 + (size_t)(p->scale ? 12 + 768 : 0) + 12 + 2 + 5 * blocks + raw + 4 + 12;
    out.at = to = (unsigned char *)malloc(out.length);
    if (!out.at) fail(1, "memory", "there is not enough for the picture");
    memcpy(to, signature, 8), to += 8;
    memcpy(to + 4, "IHDR", 4), picture_put32(to + 8, (unsigned long)p->width), picture_put32(to + 12, (unsigned long)p->height);
    memcpy(to + 16, depth, 5), to = picture_chunk(to, 13);
    if (p->scale) memcpy(to + 4, "PLTE", 4), picture_palette(p->scale, to + 8), to = picture_chunk(to, 768);
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

/* The PNG as an address. */
static inline void picture_address(const picture *p, FILE *file)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    picture_bytes png = picture_png(p);
    size_t i;
    fprintf(file, "data:image/png;base64,");
    for (i = 0; i < png.length; i += 3) {
        const size_t left = png.length - i;
        const unsigned x =
            (unsigned)png.at[i] << 16 | (left > 1 ? (unsigned)png.at[i + 1] << 8 : 0) | (left > 2 ? png.at[i + 2] : 0);
        fputc(digit[x >> 18], file), fputc(digit[x >> 12 & 63], file);
        fputc(left > 1 ? digit[x >> 6 & 63] : '=', file), fputc(left > 2 ? digit[x & 63] : '=', file);
    }
    free(png.at);
}

/* An <img> element with the picture in it. */
static inline void picture_embed(const picture *p, FILE *file, const char *alt)
{
    fprintf(file, "<img alt=\"%s\" width=\"%ld\" height=\"%ld\" src=\"", alt, p->width, p->height);
    picture_address(p, file);
    fprintf(file, "\">\n");
}

#endif /* EXAMPLES_PICTURE_H */
