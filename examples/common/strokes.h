/* strokes.h - digits drawn with a pen, for programs that want images without a file. Include after pu.h.

   Each digit is a path or two of straight strokes; an image bends it by a random shift, turn, size and trembling of the
   corners. Paper is 0, ink is 1, the edge of a stroke in between. */
#ifndef EXAMPLES_STROKES_H
#define EXAMPLES_STROKES_H

#include <math.h>

/* corners on a 9 x 9 grid, column then row ('4' is the middle); a blank lifts the pen */
static const char *const strokes_path[10] = {
    "4125276747616141", "334147", "2332416162247567", "2232416153446356674726", "5157 5126561566",
    "6131333153646547362726", "613425364757664433", "216137", "444251615344362757666544", "6352413234446461564737"};

/* distance from (x, y) to the segment between two corners */
static inline double strokes_distance(double x, double y, const double *a, const double *b)
{
    const double dx = b[0] - a[0], dy = b[1] - a[1], length2 = dx * dx + dy * dy;
    double t = length2 > 0 ? ((x - a[0]) * dx + (y - a[1]) * dy) / length2 : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(x - a[0] - t * dx, y - a[1] - t * dy);
}

/* Image number n of a digit, size x size, row-major; a function of (seed, digit, n). */
static inline void strokes_draw(int digit, pu_int size, uint64_t seed, pu_int n, pu_real *image)
{
    const char *path = strokes_path[digit];
    double corner[32][2], pen;
    pu_real wild[64 + 6];
    int count = 0, c;
    pu_int i, j;
    pu_normals(seed, (uint32_t)n, (uint32_t)digit, 0, 4, 0, 70, wild);
    pen = (0.015 + 0.002 * (double)wild[0]) * (double)size;
    for (; *path; path++) {
        const double turn = 0.06 * (double)wild[1];
        double x, y;
        if (*path == ' ') {
            corner[count++][0] = -1; /* pen up */
            continue;
        }
        x = (*path++ - '4') / 9.0, y = (*path - '4') / 9.0;
        x = x * (1 + 0.05 * (double)wild[2]) + 0.008 * (double)wild[6 + 2 * count];
        y = y * (1 + 0.05 * (double)wild[3]) + 0.008 * (double)wild[7 + 2 * count];
        corner[count][0] = (0.5 + x * cos(turn) - y * sin(turn) + 0.02 * (double)wild[4]) * (double)size;
        corner[count][1] = (0.5 + x * sin(turn) + y * cos(turn) + 0.02 * (double)wild[5]) * (double)size;
        count++;
    }
    for (i = 0; i < size; i++)
        for (j = 0; j < size; j++) {
            double near = 2 * pen + 2, ink;
            for (c = 0; c + 1 < count; c++)
                if (corner[c][0] >= 0 && corner[c + 1][0] >= 0)
                    near = fmin(near, strokes_distance((double)j, (double)i, corner[c], corner[c + 1]));
            ink = pen - near + 0.5;
            image[i * size + j] = (pu_real)(ink < 0 ? 0 : ink > 1 ? 1 : ink);
        }
}

#endif /* EXAMPLES_STROKES_H */
