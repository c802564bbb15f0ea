/* sensing.h - images seen through a part of their Fourier transform: drawing, measuring, the posterior, a sheet of pictures.

       scene s;
       memset(&s, 0, sizeof s), s.N = 10;
       scene_draw(&s, digit, size, seed);        or fill in rows, cols, D and truth
       scene_measure(&s, share, noise, seed);
       .. fit pu_model_sparse with pu_op_fourier(&s.plan) to pu_data_masked(s.N, 2 * s.D, s.y, s.mask) ..
       scene_posterior(..);
       picture p = scene_sheet(&s, shown, mean, variance);
       scene_free(&s);

   Include after pu.h, program.h, picture.h and strokes.h. */
#ifndef EXAMPLES_SENSING_H
#define EXAMPLES_SENSING_H

typedef struct { /* everything that is known about the images */
    pu_int N, rows, cols, D;
    pu_real *truth;      /* N x D */
    pu_real *y;          /* N x 2 D: real parts, imaginary parts */
    unsigned char *mask; /* likewise; 1 = measured */
    pu_real *filled;     /* N x D: the inverse transform with zeros where nothing was measured */
    pu_fourier plan;
    void *plan_memory;
} scene;

/* Random numbers of the programs: streams 0 to 2 of a seed are the library's. */
enum { STREAM_SCENE = 3 };
enum { DRAW_IMAGES, DRAW_FREQUENCIES, DRAW_NOISE, DRAW_START };

/* The first `count` places of a random order of 0 .. n-1. */
static inline void scene_shuffle(uint64_t seed, uint32_t what, uint32_t datum, pu_int n, pu_int count, pu_int *order)
{
    pu_real *key = need_reals(n);
    pu_int i;
    pu_normals(seed, datum, what, 0, STREAM_SCENE, 0, n, key);
    for (i = 0; i < n; i++) order[i] = i;
    for (i = 0; i < count; i++) { /* a normal as a uniform number, for the choice among the n - i that are left */
        const double u = 0.5 * erfc(-(double)key[i] / sqrt(2.0));
        const pu_int j = i + (pu_int)(u * (double)(n - i)), other = j < n ? j : n - 1, swap = order[i];
        order[i] = order[other], order[other] = swap;
    }
    free(key);
}

/* N images of a digit, made of strokes. */
static inline void scene_draw(scene *s, int digit, pu_int size, uint64_t seed)
{
    pu_int n;
    s->rows = s->cols = size, s->D = s->rows * s->cols;
    s->truth = need_reals(s->N * s->D);
    for (n = 0; n < s->N; n++) strokes_draw(digit, s->rows, seed, n, s->truth + n * s->D);
}

/* Measures a share of the frequencies, others for every image; noise: its standard deviation, for the unitary transform. */
static inline void scene_measure(scene *s, double share, double noise, uint64_t seed)
{
    const pu_int D = s->D, M = (pu_int)(share * (double)D + 0.5);
    pu_real *work, *wild = need_reals(2 * D), *zero = need_reals(D);
    pu_int *order = (pu_int *)need_bytes((size_t)D * sizeof *order), n, i;
    size_t bytes;
    if (M < 1) fail(2, "--share", "measures nothing at all");
    if (pu_fourier_bytes(s->rows, s->cols, &bytes)) fail(1, "images", "are too large");
    s->plan_memory = need_bytes(bytes);
    if (pu_fourier_init(&s->plan, s->rows, s->cols, s->plan_memory, bytes)) fail(1, "images", "cannot be transformed");
    work = need_reals(s->plan.work);
    s->y = need_reals(2 * s->N * D), s->filled = need_reals(s->N * D);
    s->mask = (unsigned char *)need_bytes((size_t)(2 * s->N * D));
    for (n = 0; n < s->N; n++) {
        pu_real *re = s->y + 2 * n * D, *im = re + D, *filled = s->filled + n * D;
        memcpy(re, s->truth + n * D, (size_t)D * sizeof *re);
        (void)pu_fourier_run(&s->plan, 0, re, im, work); /* the plan is good: no way to fail */
        pu_normals(seed, (uint32_t)n, DRAW_NOISE, 0, STREAM_SCENE, 0, 2 * D, wild);
        scene_shuffle(seed, DRAW_FREQUENCIES, (uint32_t)n, D, M, order);
        for (i = 0; i < 2 * D; i++) re[i] += (pu_real)noise * wild[i];
        for (i = 0; i < M; i++) s->mask[2 * n * D + order[i]] = s->mask[(2 * n + 1) * D + order[i]] = 1;
        for (i = 0; i < D; i++) {
            const int seen = s->mask[2 * n * D + i];
            if (!seen) re[i] = im[i] = 0; /* so that nobody can peep */
            filled[i] = re[i], zero[i] = im[i];
        }
        (void)pu_fourier_run(&s->plan, 1, filled, zero, work);
    }
    free(work), free(wild), free(zero), free(order);
}

/* |guess - truth| / |truth| over all images, in percent */
static inline double scene_error(const scene *s, const pu_real *guess)
{
    return 100 * relative_error(s->N * s->D, guess, s->truth);
}

/* Mean and, unless NULL, variance of every pixel; solved to 1e-5, whatever the gradients were. A variance is from 64 probes: of the
   few that do for a gradient a picture would be nothing but grain. */
static inline void scene_posterior(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                                   pu_workspace *ws, pu_real *mean, pu_real *variance)
{
    pu_options o = *options;
    pu_posterior_result out;
    pu_report report;
    memset(&out, 0, sizeof out);
    out.mean = mean, out.variance = variance;
    if (o.kind != PU_EXACT) o.kind = PU_MONTE_CARLO, o.solve.tolerance = 1e-5, o.solve.iterations = 1000; /* not unrolled */
    if (o.kind != PU_EXACT && variance && o.samples < 64) o.samples = 64;
    need_result(pu_model_posterior(model, theta, data, &o, ws, &out, &report), &report);
}

/* A row per image of four tiles: truth, zero-filled inverse, mean, standard deviation (black: the largest of all). */
static inline picture scene_sheet(const scene *s, pu_int shown, const pu_real *mean, const pu_real *variance)
{
    const pu_int gap = 4, high = s->rows + gap, wide = s->cols + gap;
    pu_real *deviation = need_reals(shown * s->D);
    picture p = picture_new((long)(4 * wide - gap), (long)(shown * high - gap));
    double largest = 1e-30;
    pu_int i;
    for (i = 0; i < shown * s->D; i++) {
        deviation[i] = (pu_real)sqrt((double)variance[i]);
        largest = fmax(largest, (double)deviation[i]);
    }
    for (i = 0; i < shown; i++) {
        picture_tile(&p, 0, (long)(i * high), s->rows, s->cols, s->truth + i * s->D, 0, 1);
        picture_tile(&p, (long)wide, (long)(i * high), s->rows, s->cols, s->filled + i * s->D, 0, 1);
        picture_tile(&p, (long)(2 * wide), (long)(i * high), s->rows, s->cols, mean + i * s->D, 0, 1);
        picture_tile(&p, (long)(3 * wide), (long)(i * high), s->rows, s->cols, deviation + i * s->D, 0, largest);
    }
    free(deviation);
    return p;
}

static inline void scene_free(scene *s)
{
    pu_fourier_free(&s->plan);
    free(s->truth), free(s->y), free(s->mask), free(s->filled), free(s->plan_memory);
}

#endif /* EXAMPLES_SENSING_H */
