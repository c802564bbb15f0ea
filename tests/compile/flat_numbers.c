/* flat_numbers.c - numbers of the flat layer, one hexadecimal number in a line, for bindings from other languages to have the same
   bits: tests/bindings.R. Data by a formula whose numbers are exact. */
#include "pu.h"
#include <math.h>
#include <stdio.h>

enum { T = 60, N = 30, M = 6, LATENT = 2 };

static void print(const pu_real *x, pu_int count)
{
    for (pu_int i = 0; i < count; i++) printf("%a\n", (double)x[i]);
}

/* A level that jumps, noise, gaps. */
static pu_real value(int i) { return i % 7 == 3 ? (pu_real)NAN : (pu_real)((i * i * 7 + 3 * i) % 11 + 8 * (i / 12 % 3)); }

static int bad;
static void done(int status) { bad |= status < 0; }

int main(void)
{
    static pu_real y[N * M], theta[20], grad[20], mean[N * M], fit[N * M], variance[N * M];
    const int type = sizeof(pu_real) == 8 ? 'd' : 'f';
    const pu_int real = (pu_int)sizeof(pu_real);
    pu_flat *f = pu_flat_new("structural"), *g = pu_flat_new("ppca");
    if (!f || !g) return 1;
    for (int i = 0; i < N * M; i++) y[i] = value(i);
    done(pu_flat_set_number(f, "length", T));
    done(pu_flat_set_text(f, "parts", "level"));
    done(pu_flat_data(f, 1, T, y, type, T * real, real));
    done(pu_flat_start(f, theta));
    done(pu_flat_fit(f, theta));
    print(theta, 2);
    done(pu_flat_gradient(f, theta, grad, NULL));
    print(grad, 2);
    printf("%a\n", pu_flat_number(f, "nll"));
    done(pu_flat_errors(f, theta, grad));
    print(grad, 2);
    done(pu_flat_predict(f, theta, mean, fit, variance));
    print(mean, T);
    print(fit, T);
    print(variance, T);
    done(pu_flat_set_number(g, "rows", M));
    done(pu_flat_set_number(g, "latent", LATENT));
    done(pu_flat_set_number(g, "steps", 5));
    done(pu_flat_set_text(g, "optimizer", "lbfgs"));
    done(pu_flat_data(g, N, M, y, type, M * real, real));
    done(pu_flat_start(g, theta));
    done(pu_flat_fit(g, theta));
    print(theta, M * LATENT + M + 1);
    done(pu_flat_posterior(g, theta, mean, variance));
    print(mean, N * LATENT);
    print(variance, N * LATENT);
    done(pu_flat_simulate(g, theta, 3, 11, mean, variance));
    print(mean, 3 * LATENT);
    print(variance, 3 * M);
    pu_flat_free(f);
    pu_flat_free(g);
    return bad != 0;
}
