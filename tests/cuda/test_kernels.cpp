/* test_kernels.cpp - every kernel of pu_cuda.cuh against the CPU backend's primitive or the host operator's function

   The kernels are run on the CPU by the engine in this directory (sim.h, given with -include). Every case is run by the
   CPU backend once and on the device several times, with threads in three orders and streams in three; what the device
   made must be the same to the bit in all of them, and agree with the CPU to rounding.

   Tolerances are eps times the size of a sum (the sum of the absolute values of its terms) times a small number that
   counts the roundings on both sides: see `few`, `sum_unit` and the places where they are used.

   CONTENTS: >>worlds  >>data  >>compare  >>vectors  >>lists  >>copies  >>sizes  >>banded  >>dense  >>sparse  >>fourier
             >>refused  >>solve  >>main
*/
#define GREATEST_VA_ARGS /* C++ has them; greatest asks for C99 */
#ifndef PU_CUDA
#define PU_CUDA
#endif
#define PU_IMPLEMENTATION
#include "pu_test.h"
#include "test_common.h"

#include <functional>
#include <string>
#include <vector>

typedef std::vector<pu_real> reals;
typedef std::vector<pu_int> ints;
typedef std::vector<double> doubles;

/* ------------------------------------------------------------------------------------------------
   >>worlds   the same case on the host and on the device
   ------------------------------------------------------------------------------------------------ */

static pu_cuda cuda; /* open from main's begin to its end */
static int small_only; /* PU_TEST_SMALL in the environment: for ThreadSanitizer, small sizes in one order each */

/* A matrix of k columns; between and after them lie guards: a NaN of a pattern of its own, which nobody may change, and
   which shows where it is read. */
struct mat {
    pu_int n, k, ld;
    reals v;
    double at(pu_int i, pu_int j) const { return (double)v[(size_t)(j * ld + i)]; }
    double size(pu_int i, pu_int j) const { return fabs(at(i, j)); }
};

static pu_real guard_value(void)
{
    pu_real x;
#ifdef PU_FLOAT
    const uint32_t bits = 0x7fd1d1d1u;
#else
    const uint64_t bits = UINT64_C(0x7ffd1d1d1d1d1d1d);
#endif
    memcpy(&x, &bits, sizeof x);
    return x;
}

static reals guards(pu_int n) { return reals((size_t)n, guard_value()); }

/* Some columns of a call: those of datum d begin at `first`. */
struct slice {
    pu_int d, first, k;
    pu_block of(pu_block b) const
    {
        b.at += first * b.ld;
        return b;
    }
};

struct output {
    std::string name;
    reals v;
};
typedef std::vector<output> outputs;

struct world {
    const pu_backend *B;
    bool device;
    pu_int count; /* data side by side */
    pu_status status;
    std::vector<void *> taken;

    world(bool on_device, pu_int data)
        : B(on_device ? &cuda.backend : pu_backend_cpu()), device(on_device), count(data), status(PU_OK)
    {
        if (device) B->batch(B->user, data);
    }
    world(const world &) = delete;
    ~world()
    {
        if (device) (void)cudaDeviceSynchronize();
        for (void *p : taken) {
            if (device) (void)cudaFree(p);
            else free(p);
        }
    }
    void *take(size_t bytes)
    {
        void *p = NULL;
        if (bytes == 0) bytes = 1;
        if (device && cudaMalloc(&p, bytes) != cudaSuccess) p = NULL;
        if (!device) p = malloc(bytes);
        if (!p) fprintf(stderr, "test_kernels: out of memory\n"), exit(2);
        taken.push_back(p);
        return p;
    }
    void copy_in(void *to, const void *from, size_t bytes)
    {
        if (bytes == 0) return;
        if (!device) memcpy(to, from, bytes);
        else if (cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice) != cudaSuccess) note(PU_E_DEVICE);
    }
    template <class T> T *put(const std::vector<T> &v)
    {
        T *p = (T *)take(v.size() * sizeof(T));
        copy_in(p, v.data(), v.size() * sizeof(T));
        return p;
    }
    template <class T> T *put_if(int wanted, const std::vector<T> &v) { return wanted ? put(v) : NULL; }
    pu_block put(const mat &m) { return tc_block(put(m.v), m.ld); }
    /* Waits, and looks at what the backend has to say first. */
    template <class T> std::vector<T> get(const T *p, size_t n)
    {
        std::vector<T> v(n);
        wait();
        if (n == 0) return v;
        if (!device) memcpy(v.data(), p, n * sizeof(T));
        else if (cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess) note(PU_E_DEVICE);
        return v;
    }
    reals get(pu_block b, const mat &shape) { return get(b.at, shape.v.size()); }
    void wait()
    {
        const char *what = "";
        if (device) note(B->status(B->user, &what));
    }
    void note(pu_status s)
    {
        if (!status) status = s;
    }
    /* The device takes all columns in one call, the CPU those of one datum at a time. */
    std::vector<slice> slices(pu_int k) const
    {
        std::vector<slice> s;
        if (device) s.push_back(slice{0, 0, k});
        for (pu_int d = 0; d < count && !device; d++) s.push_back(slice{d, d * (k / count), k / count});
        return s;
    }
};

typedef std::function<void(world &, outputs &)> body;

static void add(outputs &o, const char *name, const reals &v) { o.push_back(output{name, v}); }

static int same_bits(const outputs &a, const outputs &b, const char *when)
{
    for (size_t l = 0; l < a.size(); l++)
        for (size_t i = 0; i < a[l].v.size(); i++)
            if (memcmp(&a[l].v[i], &b[l].v[i], sizeof(pu_real)) != 0) {
                snprintf(pu_test_message, sizeof pu_test_message, "%s[%ld] depends on the order (%s): %.17g, before %.17g",
                         a[l].name.c_str(), (long)i, when, (double)a[l].v[i], (double)b[l].v[i]);
                return 0;
            }
    return 1;
}

/* How many of the nine pairs of orders a case gets. Three have every order of threads and every order of streams once. */
enum { ALL_ORDERS = 9, THREE_ORDERS = 3, ONE_ORDER = 1 };

static int on_device(pu_int count, int orders, const body &run, outputs &out)
{
    static const int pairs[9][2] = {
        {SIM_FORWARD, SIM_EAGER}, {SIM_REVERSE, SIM_LAZY},     {SIM_RANDOM, SIM_SHUFFLED}, {SIM_FORWARD, SIM_LAZY}, {SIM_FORWARD, SIM_SHUFFLED},
        {SIM_REVERSE, SIM_EAGER}, {SIM_REVERSE, SIM_SHUFFLED}, {SIM_RANDOM, SIM_EAGER},    {SIM_RANDOM, SIM_LAZY},
    };
    static int turn;
    const int begin = small_only ? turn++ % THREE_ORDERS : 0, end = small_only ? begin + 1 : orders;
    for (int l = begin; l < end; l++) {
        outputs now;
        char when[64];
        snprintf(when, sizeof when, "threads %d, streams %d", pairs[l][0], pairs[l][1]);
        sim_thread_order(pairs[l][0]), sim_stream_order(pairs[l][1]);
        {
            world w(true, count);
            run(w, now);
            w.wait();
            if (w.status) {
                snprintf(pu_test_message, sizeof pu_test_message, "device: %s (%s)", pu_status_name(w.status), when);
                return 0;
            }
        }
        if (l == begin) out = now;
        else if (!same_bits(now, out, when)) return 0;
    }
    return 1;
}

/* The case on both sides; 0 and a message when it failed or depends on an order. */
static int both(pu_int count, int orders, const body &run, outputs &host, outputs &device)
{
    {
        world w(false, count);
        run(w, host);
        if (w.status) {
            snprintf(pu_test_message, sizeof pu_test_message, "host: %s", pu_status_name(w.status));
            return 0;
        }
    }
    return on_device(count, orders, run, device);
}

#define CHECK(condition) GREATEST_ASSERTm(tc_say(pu_test_message), condition)

/* ------------------------------------------------------------------------------------------------
   >>data
   ------------------------------------------------------------------------------------------------ */

static uint64_t next_seed = 1;

static reals normal(pu_int n)
{
    reals x((size_t)n);
    tc_fill_normal(++next_seed, n, x.data());
    return x;
}

static reals positive(pu_int n)
{
    reals x = normal(n);
    for (pu_real &v : x) v = (pu_real)exp(0.5 * (double)v);
    return x;
}

static mat guarded(pu_int n, pu_int k, pu_int pad)
{
    mat m;
    m.n = n, m.k = k, m.ld = n + pad, m.v = guards(m.ld * k);
    return m;
}

static mat normal(pu_int n, pu_int k, pu_int pad)
{
    mat m = guarded(n, k, pad);
    for (pu_int j = 0; j < k; j++) tc_fill_normal(++next_seed, n, m.v.data() + j * m.ld);
    return m;
}

static void spoil(mat &m, pu_int j)
{
    for (pu_int i = 0; i < m.n; i++) m.v[(size_t)(j * m.ld + i)] = PU_R(NAN);
}

/* every third column; of less than three none */
static bool frozen(pu_int j) { return j % 3 == 2; }

struct shape {
    pu_int n, each, count;
    int orders;
    pu_int k() const { return each * count; }
};

static void name_case(const shape &s, const char *rest)
{
    tc_set_case("n %ld, %ld columns of %ld data, %s", (long)s.n, (long)s.each, (long)s.count, rest);
}

/* ------------------------------------------------------------------------------------------------
   >>compare
   ------------------------------------------------------------------------------------------------ */

static const double eps = PU_TEST_EPS;

static const output *find(const outputs &o, const char *name)
{
    for (const output &x : o)
        if (x.name == name) return &x;
    fprintf(stderr, "test_kernels: no output %s\n", name);
    exit(2);
}

static bool bits(pu_real a, pu_real b) { return memcmp(&a, &b, sizeof a) == 0; }

static int differ(const char *name, pu_int i, pu_int j, pu_real got, pu_real want, double tol)
{
    snprintf(pu_test_message, sizeof pu_test_message, "%s(%ld, %ld): device %.17g, host %.17g, differs by %.3g, allowed %.3g", name,
             (long)i, (long)j, (double)got, (double)want, fabs((double)got - (double)want), tol);
    return 0;
}

/* tol(i) is what entry i may differ by; negative: not a bit */
template <class F> static int near(const outputs &device, const outputs &host, const char *name, F tol)
{
    const reals &d = find(device, name)->v, &h = find(host, name)->v;
    for (size_t i = 0; i < h.size(); i++) {
        const double t = tol((pu_int)i);
        if (t < 0 ? !bits(d[i], h[i]) : !(fabs((double)d[i] - (double)h[i]) <= t)) return differ(name, (pu_int)i, 0, d[i], h[i], t);
    }
    return 1;
}

/* the same for the columns of a matrix, and what lies between them must be as it was */
template <class F> static int near(const outputs &device, const outputs &host, const char *name, const mat &m, F tol)
{
    const reals &d = find(device, name)->v, &h = find(host, name)->v;
    for (pu_int j = 0; j < m.k; j++)
        for (pu_int i = 0; i < m.ld; i++) {
            const size_t at = (size_t)(j * m.ld + i);
            const double t = i < m.n ? tol(i, j) : -1;
            const pu_real want = i < m.n ? h[at] : guard_value();
            if (t < 0 ? !bits(d[at], want) : !(fabs((double)d[at] - (double)want) <= t)) return differ(name, i, j, d[at], want, t);
        }
    return 1;
}

static double same(pu_int) { return -1; }

/* A handful of operations on each side, each of which rounds by eps / 2 of the size. */
static double few(int operations) { return operations * eps; }

/* Sums over a column. The device adds 16 products in a thread before it goes on in double: 19 roundings with those of the
   product and the result. The CPU has 32 in a lane, 4 folds, and the same three: 39. Half an eps each: 29 eps. In double
   the closing sums round as well: 64 parts, a block's tree of 5 + 8 and a warp's of 5 + 2; the CPU adds n / 512 chunks,
   whose errors are of random sign. */
static double sum_unit(void) { return PU_TEST_PICK(48, 32) * eps; }

/* ------------------------------------------------------------------------------------------------
   >>vectors
   ------------------------------------------------------------------------------------------------ */

TEST dot(shape s, int with_m)
{
    const pu_int n = s.n, k = s.k();
    const mat x = normal(n, k, 3), y = normal(n, k, 5);
    const reals m = positive(n * s.count);
    outputs host, device;
    name_case(s, with_m ? "m" : "plain");
    CHECK(both(s.count, s.orders,
               [&](world &w, outputs &o) {
                   const pu_block X = w.put(x), Y = w.put(y);
                   const pu_real *M = w.put_if(with_m, m);
                   pu_real *out = w.put(guards(k + 1));
                   for (slice c : w.slices(k))
                       w.B->dot(w.B->user, n, c.k, M ? M + c.d * n : NULL, c.of(X), c.of(Y), out + c.first);
                   add(o, "s", w.get(out, (size_t)k + 1));
               },
               host, device));
    CHECK(near(device, host, "s", [&](pu_int j) {
        double size = 0;
        if (j == k) return -1.0;
        for (pu_int i = 0; i < n; i++) size += (with_m ? (double)m[(size_t)(j / s.each * n + i)] : 1) * x.size(i, j) * y.size(i, j);
        return sum_unit() * size;
    }));
    PASS();
}

/* Sums of many equal numbers, whose roundings all go the same way: a sum in float without more would be off by the number of terms. Here
   only the 16 of a thread are added so. In double nothing else is done: up to 20,000 / 8 terms one after the other. */
TEST sums_keep_digits(pu_int n, pu_int k)
{
    const pu_real x = PU_R(0.1);
    const double unit = PU_TEST_PICK(2600, 16) * eps;
    world w(true, 1);
    const pu_block X = tc_block(w.put(reals((size_t)(n * k), x)), n), Y = tc_block(w.put(reals((size_t)(n * k), PU_R(1))), n);
    const pu_real *ones = w.put(reals((size_t)k, PU_R(1)));
    pu_real *sums = w.put(reals((size_t)k, PU_R(0))), *total = w.put(reals(1, PU_R(0))), *rows = w.put(reals((size_t)n, PU_R(0)));
    w.B->dot(w.B->user, n, k, NULL, X, Y, sums);
    w.B->sum_dot(w.B->user, n, k, NULL, X, Y, ones, 1.0, total);
    w.B->row_dot(w.B->user, n, k, NULL, ones, X, Y, 0, NULL, rows);
    for (pu_real s : w.get(sums, (size_t)k)) CHECK(fabs((double)s - (double)n * (double)x) <= unit * (double)n * (double)x);
    CHECK(fabs((double)w.get(total, 1)[0] - (double)(n * k) * (double)x) <= unit * (double)(n * k) * (double)x);
    for (pu_real s : w.get(rows, (size_t)n)) CHECK(fabs((double)s - (double)k * (double)x) <= unit * (double)k * (double)x);
    CHECK(w.status == PU_OK);
    PASS();
}

/* Kinds of terms: with and without coefficients, with and without a vector m; one of them is a single column for all. `alias`
   is the number of the term that is y itself, or -1. Frozen columns have coefficient 0, by c or, in the last term, by scale. */
TEST combine(shape s, int count, int rotation, int alias)
{
    static const double scales[4] = {1, -1, 0.5, -2.75};
    const pu_int n = s.n, k = s.k();
    mat x[4], y = normal(n, k, 2);
    reals c[4], m[4];
    outputs host, device;
    char text[64];
    snprintf(text, sizeof text, "%d terms from kind %d, alias %d", count, rotation, alias);
    name_case(s, text);
    for (int t = 0; t < count; t++) {
        const int kind = (t + rotation) % 4;
        x[t] = t == alias ? y : normal(n, k, t);
        c[t] = normal(k), m[t] = normal(n * s.count);
        for (pu_int j = 0; j < k; j++)
            if (frozen(j) && kind % 2) {
                c[t][(size_t)j] = PU_R(0), spoil(t == alias ? y : x[t], j);
                if (t == alias) spoil(x[t], j);
            }
    }
    if (alias < 0)
        for (pu_int j = 0; j < k; j++) spoil(y, j);
    CHECK(both(s.count, s.orders,
               [&](world &w, outputs &o) {
                   const pu_block Y = w.put(y);
                   pu_term terms[4];
                   memset(terms, 0, sizeof terms);
                   for (int t = 0; t < count; t++) {
                       const int kind = (t + rotation) % 4;
                       terms[t].x = t == alias ? Y : w.put(x[t]);
                       terms[t].scale = (pu_real)scales[kind];
                       terms[t].c = w.put_if(kind % 2, c[t]);
                       terms[t].m = w.put_if(kind / 2, m[t]);
                   }
                   for (slice g : w.slices(k)) {
                       pu_term part[4];
                       for (int t = 0; t < count; t++) {
                           part[t] = terms[t], part[t].x = g.of(terms[t].x);
                           if (part[t].c) part[t].c += g.first;
                           if (part[t].m) part[t].m += g.d * n;
                       }
                       w.B->combine(w.B->user, n, g.k, g.of(Y), count, part);
                   }
                   add(o, "y", w.get(Y, y));
               },
               host, device));
    CHECK(near(device, host, "y", y, [&](pu_int i, pu_int j) { /* three products and an addition a term: 4 terms, two sides */
        double size = 0;
        for (int t = 0; t < count; t++) {
            const int kind = (t + rotation) % 4;
            const double factor = fabs(scales[kind] * (kind % 2 ? (double)c[t][(size_t)j] : 1));
            if (factor > 0) size += factor * x[t].size(i, j) * (kind / 2 ? fabs((double)m[t][(size_t)(j / s.each * n + i)]) : 1);
        }
        return few(8) * size;
    }));
    PASS();
}

TEST combine_all(shape s)
{
    for (int count = 0; count <= 4; count++)
        for (int rotation = 0; rotation < (count ? 4 : 1); rotation++)
            for (int alias = -1; alias < count; alias += rotation == count - 1 ? 1 : count + 1) CHECK_CALL(combine(s, count, rotation, alias));
    PASS();
}

/* A leading dimension of 0: the same column for all. A scale of 0: the term is not read. */
TEST combine_broadcast(shape s)
{
    const pu_int n = s.n, k = s.k();
    const mat y = normal(n, k, 1);
    mat dead = y;
    const reals one = normal(n);
    outputs host, device;
    name_case(s, "broadcast");
    for (pu_int j = 0; j < k; j++) spoil(dead, j);
    CHECK(both(s.count, s.orders,
               [&](world &w, outputs &o) {
                   const pu_block Y = w.put(y);
                   pu_term terms[3];
                   memset(terms, 0, sizeof terms);
                   terms[0].x = Y, terms[0].scale = PU_R(2), terms[1].x = tc_block(w.put(one), 0), terms[1].scale = PU_R(-3);
                   terms[2].x = w.put(dead);
                   w.B->combine(w.B->user, n, k, Y, 3, terms);
                   add(o, "y", w.get(Y, y));
               },
               host, device));
    CHECK(near(device, host, "y", y,
               [&](pu_int i, pu_int j) { return few(3) * (2 * y.size(i, j) + 3 * fabs((double)one[(size_t)i])); }));
    PASS();
}

TEST advance(shape s, int with_m, int with_x)
{
    const pu_int n = s.n, k = s.k();
    mat d = normal(n, k, 0), q = normal(n, k, 1);
    const mat x = normal(n, k, 2), r = normal(n, k, 3);
    const reals m = positive(n * s.count);
    reals a = normal(k);
    outputs host, device;
    name_case(s, with_m ? with_x ? "m, x" : "m" : with_x ? "x" : "plain");
    for (pu_int j = 0; j < k; j++)
        if (frozen(j)) a[(size_t)j] = PU_R(0), spoil(d, j), spoil(q, j);
    CHECK(both(s.count, s.orders,
               [&](world &w, outputs &o) {
                   const pu_block D = w.put(d), Q = w.put(q), X = w.put(x), R = w.put(r), none = tc_block(NULL, 0);
                   const pu_real *M = w.put_if(with_m, m), *A = w.put(a);
                   pu_real *rho = w.put(guards(k + 1));
                   for (slice c : w.slices(k))
                       w.B->advance(w.B->user, n, c.k, A + c.first, M ? M + c.d * n : NULL, c.of(D), c.of(Q), with_x ? c.of(X) : none,
                                    c.of(R), rho + c.first);
                   add(o, "x", w.get(X, x)), add(o, "r", w.get(R, r)), add(o, "rho", w.get(rho, (size_t)k + 1));
               },
               host, device));
    auto step = [&](const mat &from, const mat &by, pu_int i, pu_int j) {
        return from.size(i, j) + (frozen(j) ? 0 : fabs((double)a[(size_t)j]) * by.size(i, j));
    };
    CHECK(near(device, host, "x", x, [&](pu_int i, pu_int j) { return frozen(j) || !with_x ? -1 : few(2) * step(x, d, i, j); }));
    CHECK(near(device, host, "r", r, [&](pu_int i, pu_int j) { return frozen(j) ? -1 : few(2) * step(r, q, i, j); }));
    CHECK(near(device, host, "rho", [&](pu_int j) { /* of r's that differ by 2 eps: 4 more in their squares */
        double size = 0;
        if (j == k) return -1.0;
        for (pu_int i = 0; i < n; i++) size += (with_m ? (double)m[(size_t)(j / s.each * n + i)] : 1) * pow(step(r, q, i, j), 2);
        return (sum_unit() + few(4)) * size;
    }));
    PASS();
}

TEST retreat(shape s, int with_m)
{
    const pu_int n = s.n, k = s.k();
    mat xbar = normal(n, k, 0);
    const mat rbar = normal(n, k, 1), dbar = normal(n, k, 4);
    const reals m = positive(n * s.count);
    reals a = normal(k), be = normal(k);
    outputs host, device;
    name_case(s, with_m ? "m" : "plain");
    for (pu_int j = 0; j < k; j++) {
        if (frozen(j)) a[(size_t)j] = PU_R(0), spoil(xbar, j);
        if (j % 2) be[(size_t)j] = PU_R(0);
    }
    CHECK(both(s.count, s.orders,
               [&](world &w, outputs &o) {
                   const pu_block X = w.put(xbar), R = w.put(rbar), D = w.put(dbar);
                   const pu_real *M = w.put_if(with_m, m), *A = w.put(a), *E = w.put(be);
                   for (slice c : w.slices(k))
                       w.B->retreat(w.B->user, n, c.k, A + c.first, E + c.first, M ? M + c.d * n : NULL, c.of(X), c.of(R), c.of(D));
                   add(o, "rbar", w.get(R, rbar)), add(o, "dbar", w.get(D, dbar));
               },
               host, device));
    CHECK(near(device, host, "rbar", rbar, [&](pu_int i, pu_int j) {
        return few(2) * (rbar.size(i, j) + (with_m ? (double)m[(size_t)(j / s.each * n + i)] : 1) * dbar.size(i, j));
    }));
    CHECK(near(device, host, "dbar", dbar, [&](pu_int i, pu_int j) {
        const double ax = frozen(j) ? 0 : fabs((double)a[(size_t)j]) * xbar.size(i, j);
        return few(2) * (fabs((double)be[(size_t)j]) * dbar.size(i, j) + ax);
    }));
    PASS();
}

/* One reverse step. Frozen columns hold NaN everywhere: nothing of them may be read, and qbar alone is written. */
struct unwind_case {
    int kept, first, with_m, with_mbar; /* first: there is no step before */
};

TEST unwind(shape s, unwind_case u)
{
    const pu_int n = s.n, k = s.k();
    mat d = normal(n, k, 0), before = normal(n, k, 1), kept = normal(n, k, 2), xbar = normal(n, k, 0);
    mat r = normal(n, k, 1), rbar = normal(n, k, 2), dbar = normal(n, k, 3), qbar = normal(n, k, 4);
    const reals m = positive(n * s.count), mbar = normal(n), weight = normal(k);
    reals minv = m, a = positive(k), be = normal(k), be_before = normal(k), two = normal(k), pib = normal(k);
    outputs host, device;
    char text[64];
    snprintf(text, sizeof text, "kept %d first %d m %d mbar %d", u.kept, u.first, u.with_m, u.with_mbar);
    name_case(s, text);
    for (pu_real &v : minv) v = 1 / v;
    for (pu_int j = 0; j < k; j++) {
        if (j % 4 == 1) be_before[(size_t)j] = PU_R(0);
        if (j % 4 == 1) spoil(before, j);
        if (!frozen(j)) continue;
        a[(size_t)j] = PU_R(0);
        for (mat *x : {&d, &before, &kept, &xbar, &r, &rbar, &dbar, &qbar}) spoil(*x, j);
    }
    CHECK(both(s.count, s.orders,
               [&](world &w, outputs &o) {
                   pu_unwinding v;
                   pu_real *mb = w.put_if(u.with_mbar, mbar), *s0 = w.put(guards(k + 1)), *s1 = w.put(guards(k + 1)),
                           *s2 = w.put(guards(k + 1));
                   memset(&v, 0, sizeof v);
                   v.d = w.put(d), v.before = w.put(before), v.xbar = w.put(xbar), v.r = w.put(r), v.rbar = w.put(rbar);
                   v.dbar = w.put(dbar), v.qbar = w.put(qbar);
                   if (u.kept) v.r_i = w.put(kept);
                   v.a = w.put(a), v.be = w.put(be), v.be_before = w.put_if(!u.first, be_before);
                   v.twice_rhobar = w.put(two), v.pib = w.put(pib), v.m = w.put_if(u.with_m, m), v.minv = w.put_if(u.with_m, minv);
                   v.weight = w.put_if(u.with_mbar, weight), v.mbar = mb;
                   for (int sums = 1; sums >= 0; sums--)
                       for (slice c : w.slices(k)) {
                           pu_unwinding p = v;
                           p.d = c.of(v.d), p.before = c.of(v.before), p.xbar = c.of(v.xbar), p.r = c.of(v.r), p.rbar = c.of(v.rbar);
                           p.dbar = c.of(v.dbar), p.qbar = c.of(v.qbar);
                           if (u.kept) p.r_i = c.of(v.r_i);
                           p.a += c.first, p.be += c.first, p.twice_rhobar += c.first, p.pib += c.first;
                           if (p.be_before) p.be_before += c.first;
                           if (p.m) p.m += c.d * n, p.minv += c.d * n;
                           if (p.weight) p.weight += c.first;
                           if (sums) w.B->unwind_sums(w.B->user, n, c.k, &p, s0 + c.first, s1 + c.first, s2 + c.first);
                           else w.B->unwind(w.B->user, n, c.k, &p);
                       }
                   add(o, "s0", w.get(s0, (size_t)k + 1)), add(o, "s1", w.get(s1, (size_t)k + 1)), add(o, "s2", w.get(s2, (size_t)k + 1));
                   add(o, "r", w.get(v.r, r)), add(o, "rbar", w.get(v.rbar, rbar)), add(o, "dbar", w.get(v.dbar, dbar));
                   add(o, "qbar", w.get(v.qbar, qbar));
                   if (mb) add(o, "mbar", w.get(mb, mbar.size()));
               },
               host, device));
    auto M = [&](pu_int i, pu_int j) { return u.with_m ? (double)m[(size_t)(j / s.each * n + i)] : 1; };
    auto old = [&](pu_int i, pu_int j) { /* size of r_i, of two roundings and one more with m */
        const double b = u.first || !(fabs((double)be_before[(size_t)j]) > 0) ? 0 : fabs((double)be_before[(size_t)j]) * before.size(i, j);
        return u.kept ? kept.size(i, j) : (d.size(i, j) + b) / M(i, j);
    };
    auto q = [&](pu_int i, pu_int j) { return old(i, j) + r.size(i, j); };
    auto rb = [&](pu_int i, pu_int j) {
        return rbar.size(i, j) + M(i, j) * (dbar.size(i, j) + fabs((double)two[(size_t)j]) * r.size(i, j));
    };
    auto sums = [&](int which) { /* r_i brings 4 roundings to the terms, the division and the difference two */
        return [=, &a, &d, &xbar, &rbar, &dbar, &r](pu_int j) {
            double size = 0;
            if (j == k || frozen(j)) return -1.0;
            for (pu_int i = 0; i < n; i++) {
                const double by = fabs((double)a[(size_t)j]);
                if (which == 0) size += dbar.size(i, j) * d.size(i, j);
                if (which == 1) size += xbar.size(i, j) * d.size(i, j) + (rbar.size(i, j) + M(i, j) * dbar.size(i, j)) * q(i, j) / by;
                if (which == 2) size += M(i, j) * r.size(i, j) * q(i, j) / by;
            }
            return (sum_unit() + few(6)) * size;
        };
    };
    CHECK(near(device, host, "s0", sums(0)));
    CHECK(near(device, host, "s1", sums(1)));
    CHECK(near(device, host, "s2", sums(2)));
    CHECK(near(device, host, "r", r, [&](pu_int i, pu_int j) { return frozen(j) || u.kept ? -1 : few(3) * old(i, j); }));
    CHECK(near(device, host, "rbar", rbar, [&](pu_int i, pu_int j) { return frozen(j) ? -1 : few(4) * rb(i, j); }));
    CHECK(near(device, host, "qbar", qbar, [&](pu_int i, pu_int j) {
        return frozen(j) ? -1 : few(6) * (fabs((double)pib[(size_t)j]) * d.size(i, j) + fabs((double)a[(size_t)j]) * rb(i, j));
    }));
    CHECK(near(device, host, "dbar", dbar, [&](pu_int i, pu_int j) {
        const size_t c = (size_t)j;
        if (frozen(j)) return -1.0;
        return few(8) * (fabs((double)be[c]) * dbar.size(i, j) + fabs((double)a[c]) * xbar.size(i, j) + fabs((double)(pib[c] / a[c])) * q(i, j));
    }));
    if (u.with_mbar)
        CHECK(near(device, host, "mbar", [&](pu_int i) { /* columns are added one by one on both sides */
            double size = fabs((double)mbar[(size_t)i]);
            for (pu_int j = 0; j < k; j++)
                if (!frozen(j))
                    size += fabs((double)weight[(size_t)j]) * r.size(i, j) * (dbar.size(i, j) + 0.5 * fabs((double)two[(size_t)j]) * r.size(i, j));
            return ((double)k + 6) * eps * size;
        }));
    for (pu_int j = 0; j < k; j++)
        for (pu_int i = 0; frozen(j) && i < n; i++) TC_ASSERT(bits(find(device, "qbar")->v[(size_t)(j * qbar.ld + i)], PU_R(0)));
    PASS();
}

TEST unwind_all(shape s)
{
    unwind_case u;
    for (u.kept = 0; u.kept <= 1; u.kept++)
        for (u.first = 0; u.first <= 1; u.first++)
            for (u.with_m = 0; u.with_m <= 1; u.with_m++)
                for (u.with_mbar = 0; u.with_mbar <= u.with_m; u.with_mbar++)
                    if ((s.n < 1000 && !small_only) || u.kept != u.first) CHECK_CALL(unwind(s, u));
    PASS();
}

TEST row_dot(shape s, int with_m, int with_w, int with_q)
{
    const pu_int n = s.n, k = s.k();
    mat p = normal(n, k, 3), q = normal(n, k, 4);
    const reals m = normal(n * s.count), out = normal(n + 1);
    reals weight = normal(k);
    outputs host, device;
    char text[64];
    snprintf(text, sizeof text, "m %d w %d q %d", with_m, with_w, with_q);
    name_case(s, text);
    for (pu_int j = 0; with_w && with_q && !with_m && j < k; j++) /* where the CPU's does not read them, either */
        if (frozen(j)) weight[(size_t)j] = PU_R(0), spoil(p, j), spoil(q, j);
    CHECK(both(s.count, s.orders,
               [&](world &w, outputs &o) {
                   const pu_block P = w.put(p), Q = w.put(q), none = tc_block(NULL, 0);
                   const pu_real *M = w.put_if(with_m, m), *W = w.put_if(with_w, weight);
                   pu_real *to = w.put(out);
                   for (slice c : w.slices(k))
                       w.B->row_dot(w.B->user, n, c.k, M ? M + c.d * n : NULL, W ? W + c.first : NULL, c.of(P), with_q ? c.of(Q) : none, n,
                                    NULL, to);
                   add(o, "out", w.get(to, out.size()));
               },
               host, device));
    CHECK(near(device, host, "out", [&](pu_int i) { /* k additions on both sides, three products */
        double size = fabs((double)out[(size_t)i]);
        if (i == n) return -1.0;
        for (pu_int j = 0; j < k; j++)
            if (!with_w || fabs((double)weight[(size_t)j]) > 0)
                size += (with_w ? fabs((double)weight[(size_t)j]) : 1) * (with_m ? fabs((double)m[(size_t)(j / s.each * n + i)]) : 1) *
                        p.size(i, j) * (with_q ? q.size(i, j) : 1);
        return ((double)k + 4) * eps * size;
    }));
    PASS();
}

TEST sum_dot(shape s, int with_m)
{
    const pu_int n = s.n, k = s.k();
    const mat x = normal(n, k, 3), y = normal(n, k, 4);
    const reals m = normal(n * s.count), weight = normal(k), out = {PU_R(0.5), guard_value()};
    double size = 0.5;
    outputs host, device;
    name_case(s, with_m ? "m" : "plain");
    CHECK(both(s.count, s.orders,
               [&](world &w, outputs &o) {
                   const pu_block X = w.put(x), Y = w.put(y);
                   const pu_real *M = w.put_if(with_m, m), *W = w.put(weight);
                   pu_real *to = w.put(out);
                   for (slice c : w.slices(k))
                       w.B->sum_dot(w.B->user, n, c.k, M ? M + c.d * n : NULL, c.of(X), c.of(Y), W + c.first, -3, to);
                   add(o, "out", w.get(to, 2));
               },
               host, device));
    for (pu_int j = 0; j < k; j++)
        for (pu_int i = 0; i < n; i++)
            size += 3 * fabs((double)weight[(size_t)j]) * (with_m ? fabs((double)m[(size_t)(j / s.each * n + i)]) : 1) * x.size(i, j) *
                    y.size(i, j);
    /* the CPU adds the data's parts to `out`, one rounding each */
    CHECK(near(device, host, "out", [&](pu_int i) { return i ? -1 : (sum_unit() + (double)s.count * eps) * size; }));
    PASS();
}

/* All stages, on columns that are in every state a column can be in. The text is the same for both: so are the bits. */
TEST stages(pu_int k)
{
    enum { STEPS = 3, HISTORIES = 4 * STEPS + 1, SINGLES = 13 };
    static const double odd[] = {0, -1, INFINITY, NAN, 1e-300, 1};
    const size_t all = (size_t)(k * (HISTORIES + SINGLES));
    std::vector<reals> start;
    std::vector<std::vector<int32_t>> counts;
    outputs host, device;
    tc_set_case("k %ld", (long)k);
    for (int l = 0; l < 11 * STEPS * 8; l++) {
        reals v = positive((pu_int)all);
        std::vector<int32_t> c((size_t)(2 * k));
        for (size_t i = 0; i < all; i++)
            if (tc_hash(next_seed + i) % 11 == 0) v[i] = (pu_real)odd[tc_hash(next_seed + 7 * i) % 6];
        for (pu_int j = 0; j < k; j++) c[(size_t)j] = (int32_t)(tc_hash(next_seed + (uint64_t)j) % 4), c[(size_t)(k + j)] = j % 5 == 4;
        start.push_back(v), counts.push_back(c);
    }
    CHECK(both(1, ALL_ORDERS,
               [&](world &w, outputs &o) {
                   pu_real *at = w.put(start[0]);
                   int32_t *c = w.put(counts[0]);
                   size_t l = 0;
                   for (int stage = PU_STAGE_START; stage <= PU_STAGE_UNWIND; stage++)
                       for (int i = 0; i < STEPS; i++)
                           for (int flags = 0; flags < 8; flags++, l++) {
                               pu_real *p = at;
                               pu_state s;
                               char name[64];
                               memset(&s, 0, sizeof s);
                               s.k = k, s.fixed_step = flags & 1, s.use_beta = flags >> 1 & 1, s.detach = flags >> 2;
                               s.a = p, s.be = s.a + STEPS * k, s.pi = s.be + STEPS * k, s.rho = s.pi + STEPS * k;
                               p = s.rho + (STEPS + 1) * k;
                               for (pu_real **f : {&s.s0, &s.s1, &s.step, &s.target, &s.floor_, &s.scale, &s.rhobar, &s.rhop, &s.pib, &s.c0,
                                                   &s.c1, &s.c2})
                                   *f = p, p += k;
                               s.steps = c, s.stop = c + k, s.tolerance2 = i ? 0.25 : 0, s.absolute2 = i == 2 ? 0.5 : 0;
                               w.B->write(w.B->user, at, start[l].data(), all * sizeof(pu_real));
                               w.B->write(w.B->user, c, counts[l].data(), counts[l].size() * sizeof *c);
                               w.B->stage(w.B->user, &s, (pu_stage)stage, i);
                               snprintf(name, sizeof name, "stage %d step %d flags %d", stage, i, flags);
                               add(o, name, w.get(at, all));
                               reals whole;
                               for (int32_t v : w.get(c, (size_t)(2 * k))) whole.push_back((pu_real)v);
                               add(o, (std::string(name) + " stop").c_str(), whole);
                           }
               },
               host, device));
    /* one NaN is as good as another */
    for (const output &x : host) {
        const reals &got = find(device, x.name.c_str())->v;
        for (size_t i = 0; i < x.v.size(); i++)
            if (!bits(got[i], x.v[i]) && !(isnan(got[i]) && isnan(x.v[i]))) {
                (void)differ(x.name.c_str(), (pu_int)i, 0, got[i], x.v[i], 0);
                FAILm(tc_say(pu_test_message));
            }
    }
    PASS();
}

/* ------------------------------------------------------------------------------------------------
   >>lists   some rows of M for each datum, ragged, with an empty one among three or more
   ------------------------------------------------------------------------------------------------ */

struct lists {
    pu_int M, n, count;      /* n: the longest */
    std::vector<ints> rows;  /* of each datum, ascending */
    ints all;                /* as the backend wants it */
};

static lists ragged(pu_int M, pu_int n, pu_int count)
{
    lists l;
    l.M = M, l.n = n, l.count = count;
    for (pu_int d = 0; d < count; d++) {
        const pu_int want = d == 0 ? n : d == 2 ? 0 : (pu_int)(tc_hash(++next_seed) % (uint64_t)(n + 1));
        ints rows;
        pu_int left = want;
        for (pu_int i = 0; i < M && left > 0; i++)
            if ((pu_int)(tc_hash(++next_seed) % (uint64_t)(M - i)) < left) rows.push_back(i), left--;
        l.rows.push_back(rows);
        for (pu_int i = 0; i < n; i++) l.all.push_back(i < want ? rows[(size_t)i] : -1);
    }
    l.all.resize((size_t)(2 * n * count + M + 1));
    pu__list_places(M, n * count, l.all.data());
    return l;
}

/* a matrix of n rows a datum; rows that are not there hold NaN */
static mat ragged_normal(const lists &l, pu_int each, pu_int pad)
{
    mat m = normal(l.n, each * l.count, pad);
    for (pu_int j = 0; j < m.k; j++)
        for (pu_int i = (pu_int)l.rows[(size_t)(j / each)].size(); i < l.n; i++) m.v[(size_t)(j * m.ld + i)] = PU_R(NAN);
    return m;
}

static reals ragged_reals(const lists &l, const reals &v)
{
    reals out = v;
    for (pu_int d = 0; d < l.count; d++)
        for (pu_int i = (pu_int)l.rows[(size_t)d].size(); i < l.n; i++) out[(size_t)(d * l.n + i)] = PU_R(NAN);
    return out;
}

/* the list of a slice, and its length, as each side wants them */
static pu_int list_length(const world &w, const lists &l, pu_int d) { return w.device ? l.n : (pu_int)l.rows[(size_t)d].size(); }
static const pu_int *list_of(const world &w, const lists &l, const pu_int *all, pu_int d) { return w.device ? all : all + d * l.n; }

TEST row_dot_lists(shape s, int with_m, int with_q)
{
    const pu_int M = 2 * s.n + 3, k = s.k();
    const lists l = ragged(M, s.n, s.count);
    const mat p = ragged_normal(l, s.each, 3), q = ragged_normal(l, s.each, 1);
    const reals m = ragged_reals(l, normal(s.n * s.count)), weight = normal(k), out = normal(M + 1);
    doubles size((size_t)M, 0);
    outputs host, device;
    name_case(s, with_m ? "list, m" : "list");
    CHECK(both(s.count, s.orders,
               [&](world &w, outputs &o) {
                   const pu_block P = w.put(p), Q = w.put(q), none = tc_block(NULL, 0);
                   const pu_real *V = w.put_if(with_m, m), *W = w.put(weight);
                   const pu_int *rows = w.put(l.all);
                   pu_real *to = w.put(out);
                   for (slice c : w.slices(k))
                       w.B->row_dot(w.B->user, list_length(w, l, c.d), c.k, V ? V + c.d * s.n : NULL, W + c.first, c.of(P),
                                    with_q ? c.of(Q) : none, M, list_of(w, l, rows, c.d), to);
                   add(o, "out", w.get(to, out.size()));
               },
               host, device));
    for (pu_int j = 0; j < k; j++) {
        const ints &rows = l.rows[(size_t)(j / s.each)];
        for (size_t i = 0; i < rows.size(); i++)
            size[(size_t)rows[i]] += fabs((double)weight[(size_t)j]) * (with_m ? fabs((double)m[(size_t)(j / s.each * s.n) + i]) : 1) *
                                     p.size((pu_int)i, j) * (with_q ? q.size((pu_int)i, j) : 1);
    }
    CHECK(near(device, host, "out", [&](pu_int i) {
        return i == M || !(size[(size_t)i] > 0) ? -1 : ((double)k + 4) * eps * (size[(size_t)i] + fabs((double)out[(size_t)i]));
    }));
    PASS();
}

TEST row_terms(shape s, int listed)
{
    const pu_int n = s.n, M = listed ? 2 * n + 3 : n, k = s.count;
    lists l;
    if (listed) l = ragged(M, n, k);
    const mat t = listed ? ragged_normal(l, 1, 3) : normal(n, k, 3);
    const reals psi = positive(M), eta = normal(M + 1), psibar = normal(M + 1);
    reals e = normal(n * k), weight = positive(n * k), mask = reals((size_t)(n * k), PU_R(1));
    doubles size_eta((size_t)M, 0), size_psi((size_t)M, 0);
    outputs host, device;
    name_case(s, listed ? "list" : "all rows");
    for (size_t i = 0; i < mask.size(); i++)
        if (i % 5 == 3) mask[i] = weight[i] = PU_R(0);
    if (listed) e = ragged_reals(l, e), weight = ragged_reals(l, weight), mask = ragged_reals(l, mask);
    CHECK(both(k, s.orders,
               [&](world &w, outputs &o) {
                   const pu_block T = w.put(t);
                   const pu_real *W = w.put(weight), *K = w.put(mask), *E = w.put(e), *P = w.put(psi);
                   const pu_int *rows = w.put_if(listed, l.all);
                   pu_real *to = w.put(eta), *bar = w.put(psibar);
                   for (slice c : w.slices(k))
                       w.B->row_terms(w.B->user, listed ? list_length(w, l, c.d) : n, c.k, c.of(T), W + c.d * n, K + c.d * n, E + c.d * n, P,
                                      M, listed ? list_of(w, l, rows, c.d) : NULL, to, bar);
                   add(o, "eta", w.get(to, eta.size())), add(o, "psibar", w.get(bar, psibar.size()));
               },
               host, device));
    for (pu_int d = 0; d < k; d++)
        for (pu_int i = 0; i < (listed ? (pu_int)l.rows[(size_t)d].size() : n); i++) {
            const size_t at = (size_t)(d * n + i), row = (size_t)(listed ? l.rows[(size_t)d][(size_t)i] : i);
            const double ti = t.size(i, d), ei = fabs((double)e[at]);
            size_eta[row] += (double)weight[at] * (ti + ei);
            if (mask[at] > PU_R(0)) size_psi[row] += (ti + ei / 2) * ei + 1 / (2 * (double)psi[row]);
        }
    /* `count` additions on each side, and three operations to make a term */
    CHECK(near(device, host, "eta", [&](pu_int i) { return i == M ? -1 : ((double)k + 4) * eps * (size_eta[(size_t)i] + fabs((double)eta[(size_t)i])); }));
    CHECK(near(device, host, "psibar",
               [&](pu_int i) { return i == M ? -1 : ((double)k + 4) * eps * (size_psi[(size_t)i] + fabs((double)psibar[(size_t)i])); }));
    PASS();
}

/* The words are the same. So are the bits of the normals, unless one of the two texts got fused multiplications. */
TEST normals(shape s, int listed)
{
    const uint64_t seed = UINT64_C(0x123456789abcdef0) + (uint64_t)s.n;
    const pu_int n = s.n, k = s.k(), M = 3 * n + 5;
    lists l;
    if (listed) l = ragged(M, n, s.count);
    const mat x = normal(n, k, 3);
    std::vector<uint32_t> datum;
    outputs host, device;
    name_case(s, listed ? "list" : "all rows");
    for (pu_int d = 0; d < s.count; d++) datum.push_back((uint32_t)(1000003 * d + 11));
    CHECK(both(s.count, s.orders,
               [&](world &w, outputs &o) {
                   const pu_block X = w.put(x);
                   const uint32_t *D = w.put(datum);
                   const pu_int *rows = w.put_if(listed, l.all);
                   for (slice c : w.slices(k)) {
                       if (listed && !w.device) /* rows that are not there are zero */
                           for (pu_int j = c.first; j < c.first + c.k; j++)
                               for (pu_int i = 0; i < n; i++) X.at[j * X.ld + i] = PU_R(0);
                       w.B->normals(w.B->user, listed ? list_length(w, l, c.d) : n, listed ? list_of(w, l, rows, c.d) : NULL, c.k, c.of(X), seed,
                                    D + c.d, 22, 33, 2);
                   }
                   add(o, "x", w.get(X, x));
               },
               host, device));
#ifdef __FP_FAST_FMA
    CHECK(near(device, host, "x", x, [&](pu_int, pu_int) { return 64 * eps; })); /* radius below 8.6, 8 operations */
#else
    CHECK(near(device, host, "x", x, [&](pu_int, pu_int) { return -1.0; }));
#endif
    PASS();
}

/* ------------------------------------------------------------------------------------------------
   >>copies   read and write; the source of a write may change as soon as the call returns
   ------------------------------------------------------------------------------------------------ */

static std::vector<unsigned char> noise(size_t bytes)
{
    std::vector<unsigned char> v(bytes);
    const uint64_t from = ++next_seed << 32;
    for (size_t i = 0; i < bytes; i++) v[i] = (unsigned char)tc_hash(from + i / 8) ^ (unsigned char)(i % 8 * 31);
    return v;
}

static reals as_reals(const std::vector<unsigned char> &v) /* so that it can be an output: its hash, byte by byte */
{
    uint64_t h = v.size();
    reals out;
    for (unsigned char c : v) h = (h ^ c) * UINT64_C(0x100000001b3);
    for (int l = 0; l < 4; l++) out.push_back((pu_real)(h >> (16 * l) & 0xffff));
    return out;
}

TEST read_and_write(size_t bytes)
{
    const std::vector<unsigned char> data = noise(bytes);
    outputs host, device;
    tc_set_case("%ld bytes", (long)bytes);
    CHECK(both(1, ALL_ORDERS,
               [&](world &w, outputs &o) {
                   std::vector<unsigned char> from = data, back(bytes + 1, 7);
                   unsigned char *there = w.put(std::vector<unsigned char>(bytes + 1, 9));
                   w.B->write(w.B->user, there, from.data(), bytes);
                   std::fill(from.begin(), from.end(), (unsigned char)1);
                   w.B->read(w.B->user, back.data(), there, bytes);
                   add(o, "untouched", reals(1, (pu_real)back[bytes]));
                   back[bytes] = w.get(there + bytes, 1)[0];
                   add(o, "back", as_reals(back));
                   back.resize(bytes);
                   if (back != data) w.note(PU_E_DEVICE);
               },
               host, device));
    CHECK(near(device, host, "untouched", same));
    CHECK(near(device, host, "back", same));
    PASS();
}

/* Thousands of small ones, of every alignment, more than the staging memory holds, then large ones in between. */
TEST many_writes(void)
{
    const size_t total = (size_t)12 << 20;
    outputs host, device;
    tc_set_case("many writes");
    CHECK(both(1, THREE_ORDERS,
               [&](world &w, outputs &o) {
                   std::vector<unsigned char> piece(3 << 20), back(total);
                   unsigned char *there = w.put(std::vector<unsigned char>(total, 9));
                   size_t at = 0;
                   for (uint64_t l = 0; at < total; l++) {
                       const size_t want = l % 1500 == 1499 ? ((size_t)2 << 20) + l : 1 + tc_hash(l) % 6000;
                       const size_t some = want < total - at ? want : total - at;
                       memset(piece.data(), (int)(l % 251), some);
                       w.B->write(w.B->user, there + at, piece.data(), some);
                       at += some;
                   }
                   w.B->read(w.B->user, back.data(), there, total);
                   add(o, "back", as_reals(back));
               },
               host, device));
    CHECK(near(device, host, "back", same));
    PASS();
}

/* Two slots in turns: what is written to one may overtake the work on the other, never the work on itself. */
TEST turns(pu_int n)
{
    enum { BATCHES = 12 };
    const reals pieces = normal(n * BATCHES);
    outputs host, device;
    tc_set_case("n %ld", (long)n);
    CHECK(both(1, ALL_ORDERS,
               [&](world &w, outputs &o) {
                   reals from((size_t)n);
                   pu_real *slot[2] = {w.put(guards(n)), w.put(guards(n))}, *out = w.put(guards(BATCHES)), *last = w.put(guards(n));
                   for (int l = 0; l < BATCHES; l++) {
                       const pu_block x = tc_block(slot[l % 2], n);
                       pu_term t;
                       memset(&t, 0, sizeof t);
                       t.x = x, t.scale = PU_R(1);
                       if (w.device) w.B->use_slot(w.B->user, l % 2);
                       memcpy(from.data(), pieces.data() + l * n, (size_t)n * sizeof(pu_real));
                       w.B->write(w.B->user, slot[l % 2], from.data(), (size_t)n * sizeof(pu_real));
                       if (w.device) w.B->batch(w.B->user, 1);
                       w.B->dot(w.B->user, n, 1, NULL, x, x, out + l);
                       w.B->combine(w.B->user, n, 1, tc_block(last, n), 1, &t);
                   }
                   add(o, "out", w.get(out, BATCHES)), add(o, "last", w.get(last, (size_t)n));
               },
               host, device));
    CHECK(near(device, host, "out", [&](pu_int j) { return sum_unit() * fabs((double)find(host, "out")->v[(size_t)j]); }));
    CHECK(near(device, host, "last", same));
    PASS();
}

/* ------------------------------------------------------------------------------------------------
   >>sizes   operators by their entries' absolute values: what rounding errors of a product are measured with
   ------------------------------------------------------------------------------------------------ */

struct entries {
    pu_int rows, cols;
    ints i, j;
    doubles a;
    void add(pu_int row, pu_int col, double value) { i.push_back(row), j.push_back(col), a.push_back(fabs(value)); }
    /* the size of column c of the product with x (or of the transposed one) */
    doubles product(const mat &x, pu_int c, bool turned) const
    {
        doubles y((size_t)(turned ? cols : rows), 0.0);
        for (size_t l = 0; l < a.size(); l++)
            if (turned) y[(size_t)j[l]] += a[l] * x.size(i[l], c);
            else y[(size_t)i[l]] += a[l] * x.size(j[l], c);
        return y;
    }
};

/* An operator under test. `size` may be larger than the entries: where an entry is itself a sum, it is that of the sizes. */
struct subject {
    std::string name;
    pu_op op;
    int slot;
    entries size, factor;
    std::function<doubles(const mat &P, const mat &Q, const reals &weight)> grad_size;
    double unit;      /* of products, in eps */
    double grad_unit; /* of gradients */
    int skips;        /* a column of weight 0 is not read by grad */
};

/* The device side of op in this world's memory, or op itself. */
static pu_side side_of(world &w, int slot, const pu_op *op)
{
    pu_side side;
    size_t bytes = 0, again = 0;
    memset(&side, 0, sizeof side);
    side.op = *op;
    if (op->form == PU_FORM_FOURIER) side.gram = pu__fourier_gram;
    if (!w.device) return side;
    w.note(w.B->side(w.B->user, slot, op, NULL, &bytes, &side));
    if (!w.status) w.note(w.B->side(w.B->user, slot, op, w.take(bytes), &again, &side));
    if (bytes != again || side.op.rows != op->rows || side.op.cols != op->cols) w.note(PU_E_SIZE);
    return side;
}

static pu_real *work_for(world &w, const pu_op &op, pu_int k) { return w.put(guards(op.work * k)); }

/* grad, twice, then grad_from_sums where the side has one: the gradient on the host */
static reals gradient(world &w, const pu_side &full, const pu_op &op, const mat *P, const mat *Q, const std::vector<reals> &weight, pu_real *work)
{
    const pu_op &side = full.op;
    reals grad((size_t)op.params, PU_R(0.25));
    if (!w.device) {
        for (int l = 0; l < 2; l++)
            w.note(op.grad(&op, P[l].k, w.put(P[l]), w.put(Q[l]), weight[(size_t)l].data(), grad.data(), work));
        return grad;
    }
    pu_real *sums = w.put(reals((size_t)side.params, PU_R(0)));
    for (int l = 0; l < 2; l++) w.note(side.grad(&side, P[l].k, w.put(P[l]), w.put(Q[l]), w.put(weight[(size_t)l]), sums, work));
    const reals made = w.get(sums, (size_t)side.params);
    if (full.grad_from_sums) w.note(full.grad_from_sums(&full, made.data(), grad.data()));
    else
        for (size_t i = 0; i < made.size(); i++) grad[i] += made[i];
    return grad;
}

/* (Gamma + diag(shift)) X and x'(..)x on the host, whose operators need not have it */
static void host_plus(world &w, const pu_op &op, const reals *shift, pu_int n, slice c, pu_block X, pu_block Y, pu_real *s, pu_real *work)
{
    w.note(op.apply(&op, c.k, c.of(X), c.of(Y), 0, work));
    for (pu_int j = c.first; j < c.first + c.k; j++) {
        long double sum = 0; /* all its terms may be positive */
        for (pu_int i = 0; i < n; i++) {
            if (shift) Y.at[j * Y.ld + i] += (*shift)[(size_t)(c.d * n + i)] * X.at[j * X.ld + i];
            sum += (long double)X.at[j * X.ld + i] * (long double)Y.at[j * Y.ld + i];
        }
        s[j] = (pu_real)sum;
    }
}

/* Every function of a side. */
TEST side(const subject *t, pu_int each, pu_int count, int orders)
{
    const pu_op &op = t->op;
    const pu_int rows = op.rows, cols = op.cols, k = each * count;
    const mat x = normal(cols, k, 3), xt = normal(rows, k, 1), y = normal(rows, k, 2), yt = normal(cols, k, 5), e = normal(rows, k, 2);
    mat P[2] = {normal(rows, k, 0), normal(rows, k, 4)}, Q[2] = {normal(cols, k, 3), normal(cols, k, 0)};
    mat hostP[2], hostQ[2];
    std::vector<reals> weight = {normal(k), normal(k)};
    const reals shift = positive(rows * count);
    outputs host, device;
    tc_set_case("%s, %ld x %ld, %ld columns of %ld data", t->name.c_str(), (long)rows, (long)cols, (long)each, (long)count);
    for (int l = 0; l < 2; l++) {
        hostP[l] = P[l], hostQ[l] = Q[l];
        for (pu_int j = 0; j < k && t->skips; j++)
            if (frozen(j)) weight[(size_t)l][(size_t)j] = PU_R(0), spoil(P[l], j), spoil(Q[l], j);
    }
    const int square = rows == cols && t->slot == 0;
    int plus = 0, samples = op.sample != NULL;
    CHECK(both(count, orders,
               [&](world &w, outputs &o) {
                   const pu_side full = side_of(w, t->slot, &op);
                   const pu_op &side = full.op;
                   if (w.status) return;
                   pu_real *work = work_for(w, side, k);
                   const pu_block X = w.put(x), XT = w.put(xt), E = w.put(e);
                   for (int add_it = 0; add_it <= 1; add_it++) {
                       const pu_block Y = w.put(y), YT = w.put(yt);
                       w.note(side.apply(&side, k, X, Y, add_it, work));
                       w.note(side.apply_t(&side, k, XT, YT, add_it, work));
                       add(o, add_it ? "apply, add" : "apply", w.get(Y, y)), add(o, add_it ? "apply_t, add" : "apply_t", w.get(YT, yt));
                   }
                   if (w.device) plus = full.apply_plus != NULL;
                   for (int shifted = 0; square && shifted <= 1; shifted++) {
                       const pu_block Y = w.put(y);
                       pu_real *s = w.put(guards(k + 1));
                       const pu_real *S = w.put_if(shifted, shift);
                       if (w.device && !full.apply_plus) break;
                       for (slice c : w.slices(k))
                           if (w.device) w.note(full.apply_plus(&side, S, k, X, Y, 0, s));
                           else host_plus(w, op, shifted ? &shift : NULL, rows, c, X, Y, s, work);
                       add(o, shifted ? "plus, shifted" : "plus", w.get(Y, y)), add(o, shifted ? "xax, shifted" : "xax", w.get(s, (size_t)k + 1));
                   }
                   if (square && w.device && full.apply_plus) { /* to what is there, and without sums */
                       const pu_block Y = w.put(y);
                       w.note(full.apply_plus(&side, w.put(shift), k, X, Y, 1, NULL));
                       add(o, "plus, add", w.get(Y, y));
                   } else if (square && !w.device) {
                       const pu_block Y = w.put(y);
                       pu_real *s = w.put(guards(k + 1));
                       for (slice c : w.slices(k)) host_plus(w, op, &shift, rows, c, X, Y, s, work);
                       reals sum = w.get(Y, y);
                       for (pu_int j = 0; j < k; j++)
                           for (pu_int i = 0; i < rows; i++) sum[(size_t)(j * y.ld + i)] += y.v[(size_t)(j * y.ld + i)];
                       add(o, "plus, add", sum);
                   }
                   if (op.params) add(o, "grad", gradient(w, full, op, w.device ? P : hostP, w.device ? Q : hostQ, weight, work));
                   else if (side.grad && w.device) w.note(PU_E_ARGUMENT);
                   if (samples && w.device && !side.sample) w.note(PU_E_ARGUMENT);
                   else if (samples) {
                       const pu_block Y = w.put(y);
                       w.note(side.sample(&side, k, E, Y, work));
                       add(o, "sample", w.get(Y, y));
                   }
               },
               host, device));
    std::vector<doubles> ax, axt, fe;
    for (pu_int j = 0; j < k; j++) {
        ax.push_back(t->size.product(x, j, false)), axt.push_back(t->size.product(xt, j, true));
        if (samples) fe.push_back(t->factor.product(e, j, false));
    }
    auto of = [](const std::vector<doubles> &v, pu_int i, pu_int j) { return v[(size_t)j][(size_t)i]; };
    auto moved = [&](pu_int i, pu_int j) { return (double)shift[(size_t)(j / each * rows + i)] * x.size(i, j); };
    CHECK(near(device, host, "apply", y, [&](pu_int i, pu_int j) { return t->unit * eps * of(ax, i, j); }));
    CHECK(near(device, host, "apply_t", yt, [&](pu_int i, pu_int j) { return t->unit * eps * of(axt, i, j); }));
    CHECK(near(device, host, "apply, add", y, [&](pu_int i, pu_int j) { return t->unit * eps * (of(ax, i, j) + y.size(i, j)); }));
    CHECK(near(device, host, "apply_t, add", yt, [&](pu_int i, pu_int j) { return t->unit * eps * (of(axt, i, j) + yt.size(i, j)); }));
    for (int shifted = 0; shifted <= 1 && plus; shifted++) {
        auto size = [&](pu_int i, pu_int j) { return of(ax, i, j) + (shifted ? moved(i, j) : 0); };
        CHECK(near(device, host, shifted ? "plus, shifted" : "plus", y, [&](pu_int i, pu_int j) { return (t->unit + 2) * eps * size(i, j); }));
        CHECK(near(device, host, shifted ? "xax, shifted" : "xax", [&](pu_int j) {
            double sum = 0;
            if (j == k) return -1.0;
            for (pu_int i = 0; i < rows; i++) sum += x.size(i, j) * size(i, j);
            return (sum_unit() + (t->unit + 2) * eps) * sum;
        }));
    }
    if (plus)
        CHECK(near(device, host, "plus, add", y,
                   [&](pu_int i, pu_int j) { return (t->unit + 3) * eps * (of(ax, i, j) + moved(i, j) + y.size(i, j)); }));
    if (op.params) {
        doubles size = t->grad_size(hostP[0], hostQ[0], weight[0]), more = t->grad_size(hostP[1], hostQ[1], weight[1]);
        CHECK(near(device, host, "grad", [&](pu_int i) { return t->grad_unit * eps * (0.25 + size[(size_t)i] + more[(size_t)i]); }));
    }
    if (samples) CHECK(near(device, host, "sample", y, [&](pu_int i, pu_int j) { return t->unit * eps * of(fe, i, j); }));
    PASS();
}

static void run_side(const subject &t, pu_int each, pu_int count, int orders)
{
    static char text[96]; /* greatest keeps the pointer */
    snprintf(text, sizeof text, "%s %ld, %ld x %ld", t.name.c_str(), (long)t.op.rows, (long)each, (long)count);
    greatest_set_test_suffix(text);
    RUN_TESTp(side, &t, each, count, orders);
}

static void run_side(const subject &t)
{
    const bool large = t.op.rows > 40;
    if (small_only) {
        run_side(t, 2, 3, ONE_ORDER);
        return;
    }
    run_side(t, 1, 1, large ? ONE_ORDER : ALL_ORDERS);
    if (t.op.rows != 31) run_side(t, 5, 1, large ? ONE_ORDER : THREE_ORDERS);
    run_side(t, 2, 3, THREE_ORDERS);
}

/* ------------------------------------------------------------------------------------------------
   >>banded
   ------------------------------------------------------------------------------------------------ */

/* The gradient's size, of a banded operator whose gradient is linear in S: entries of S times the derivative, which
   band_grad tells when S has a single entry. Where there are many rows, those at the ends and some in the middle stand for all.
   The chain from the bands to the parameters mixes what it is given: a parameter whose gradient is small carries the
   rounding of the large ones. So one size is for all of them: the largest. */
static doubles band_grad_size(const pu_op *op, const mat &P, const mat &Q, const reals &weight)
{
    const pu_int n = op->rows, w = op->band, wide = w + 1;
    doubles S((size_t)(n * wide), 0), total((size_t)wide, 0), size((size_t)op->params, 0);
    ints some;
    double most = 0;
    for (pu_int i = 0; i < n; i++)
        for (pu_int l = 0; l <= w && l <= i; l++) {
            double sum = 0;
            for (pu_int j = 0; j < P.k; j++)
                sum += fabs((double)weight[(size_t)j]) * (P.size(i, j) * Q.size(i - l, j) + Q.size(i, j) * P.size(i - l, j)) / 2;
            S[(size_t)(i * wide + l)] = sum, total[(size_t)l] += sum;
        }
    for (pu_int i = 0; i < n; i++)
        if (n <= 40 || i < 3 * wide || i >= n - 3 * wide || (i >= n / 2 && i < n / 2 + wide)) some.push_back(i);
    for (pu_int l = 0; l <= w; l++) {
        doubles largest((size_t)op->params, 0);
        for (pu_int i : some) {
            doubles one((size_t)(n * wide), 0);
            reals g((size_t)op->params, PU_R(0)), work((size_t)op->work + 1);
            if (l > i) continue;
            one[(size_t)(i * wide + l)] = 1;
            if (op->band_grad(op, w, one.data(), 1, g.data(), work.data())) return size;
            for (size_t p = 0; p < g.size(); p++) {
                const double entry = fabs((double)g[p]);
                if (n <= 40) size[p] += entry * S[(size_t)(i * wide + l)];
                else if (entry > largest[p]) largest[p] = entry;
            }
        }
        for (size_t p = 0; p < size.size() && n > 40; p++) size[p] += largest[p] * total[(size_t)l];
    }
    for (double v : size) most = v > most ? v : most;
    return doubles(size.size(), most);
}

/* Products: band + 1 terms, each an entry that was rounded (on the CPU perhaps made of two factors); half an eps each, two
   sides. Gradients: sums over a column, as sum_unit has them, and a chain of a few more. */
static subject banded(const char *name, const pu_op &op)
{
    subject t;
    t.name = name, t.op = op, t.slot = 0, t.skips = 1;
    t.unit = (double)(2 * op.band + 8), t.grad_unit = sum_unit() / eps + 16;
    t.size.rows = t.size.cols = t.factor.rows = t.factor.cols = op.rows;
    t.grad_size = [op](const mat &P, const mat &Q, const reals &weight) { return band_grad_size(&op, P, Q, weight); };
    return t;
}

static void run_ar(pu_int n, pu_int order, int few_columns)
{
    static pu_ar ar;
    reals gamma = normal(order);
    char name[32];
    for (pu_real &g : gamma) g = (pu_real)(0.5 * tanh((double)g)); /* within (-1/2, 1/2): no root near the circle */
    if (pu_ar_set(&ar, n, order, gamma.data(), PU_R(0.7), NULL) != PU_OK) exit(2);
    snprintf(name, sizeof name, "AR(%ld)", (long)order);
    subject t = banded(name, pu_op_ar(&ar));
    for (pu_int i = 0; i < n; i++) /* X'X */
        for (pu_int a = 0; a <= order && a <= i; a++) {
            const pu_real *row = pu__ar_x(&ar, i);
            t.factor.add(i - a, i, (double)row[a]);
            for (pu_int b = 0; b <= order && b <= i; b++) t.size.add(i - a, i - b, (double)row[a] * (double)row[b]);
        }
    if (few_columns) { /* a gradient's sums run across the columns: they do not care how long these are */
        t.op.params = 0, t.op.grad = NULL, t.op.band_grad = NULL;
        run_side(t, 1, few_columns, THREE_ORDERS);
    }
    else run_side(t);
}

static void run_ssm(pu_int steps, pu_int S, pu_ssm_start start)
{
    static pu_ssm m;
    static const char *starts[] = {"zero", "stationary", "given"};
    const pu_real *Q = tc_random_spd(++next_seed, S), *P0 = tc_random_spd(++next_seed, S);
    reals A = normal(S * S);
    char name[32];
    for (pu_real &a : A) a = (pu_real)(0.3 * tanh((double)a)); /* row sums below 1.2: with mixed signs a radius below 1 */
    for (pu_int i = 0; i < S; i++) A[(size_t)(i * S + i)] += PU_R(0.2);
    if (pu_ssm_set(&m, steps, S, A.data(), Q, start, start == PU_SSM_GIVEN ? P0 : NULL, NULL) != PU_OK) exit(2);
    snprintf(name, sizeof name, "SSM(%ld, %s)", (long)S, starts[start]);
    subject t = banded(name, pu_op_ssm(&m));
    t.unit = (double)(6 * S + 16); /* three products one after the other on the CPU, and entries made of as many */
    t.grad_unit += 32;             /* and of the gradient: W S W, with W rounded and S a sum of four */
    for (pu_int step = 0; step < steps; step++)
        for (pu_int i = 0; i < S; i++)
            for (pu_int j = 0; j < S; j++) {
                const double W = fabs((double)(step ? m.W : m.W0)[i * S + j]), F = fabs((double)(step ? m.F : m.F0)[i * S + j]);
                const pu_int r = step * S + i, c = step * S + j;
                t.size.add(r, c, W), t.factor.add(r, c, F);
                for (pu_int a = 0; a < S && step; a++) { /* B = I and -A below the diagonal: B'W B, B'F */
                    const double left = fabs((double)m.A[i * S + a]), right = fabs((double)m.A[j * S + a]);
                    t.size.add(r - i - S + a, c, left * W), t.size.add(r, c - j - S + a, W * right), t.factor.add(r - i - S + a, c, left * F);
                    for (pu_int b = 0; b < S; b++) t.size.add(r - i - S + a, c - j - S + b, left * W * fabs((double)m.A[j * S + b]));
                }
            }
    run_side(t);
}

/* kinds: an entry each, one number, none */
static subject diagonal_subject(pu_int n, int kind, const reals &a, int slot)
{
    subject t = banded(kind == 0 ? "diagonal" : kind == 1 ? "scaled identity" : "identity",
                       kind == 0 ? pu_op_diagonal(n, a.data()) : kind == 1 ? pu_op_scaled_identity(n, a.data()) : pu_op_identity(n));
    t.slot = slot;
    for (pu_int i = 0; i < n; i++) {
        const double v = kind == 0 ? (double)a[(size_t)i] : kind == 1 ? (double)a[0] : 1;
        t.size.add(i, i, v), t.factor.add(i, i, sqrt(v));
    }
    t.unit = 4;
    t.grad_unit += slot ? 8 : 0;
    t.grad_size = [=](const mat &P, const mat &Q, const reals &weight) {
        doubles size((size_t)n, 0);
        double sum = 0;
        for (pu_int j = 0; j < P.k; j++)
            for (pu_int i = 0; i < n; i++) {
                const double term = fabs((double)weight[(size_t)j]) * P.size(i, j) * Q.size(i, j);
                size[(size_t)i] += term, sum += term;
            }
        return kind == 0 ? size : doubles(1, sum);
    };
    return t;
}

/* An operator of the user's: theta L L', L lower with three diagonals below; one parameter. */
struct ladder {
    pu_int n;
    pu_real theta;
    reals L; /* entry (i, i - j) at 4 i + j */
    double entry(pu_int i, pu_int j) const { return j < 0 || j > 3 || i - j < 0 ? 0 : (double)L[(size_t)(4 * i + j)]; }
    double product(pu_int i, pu_int lag, bool sizes) const /* of L L', entry (i, i - lag) */
    {
        double sum = 0;
        for (pu_int c = i - 3; c <= i - lag; c++)
            sum += sizes ? fabs(entry(i, i - c) * entry(i - lag, i - lag - c)) : entry(i, i - c) * entry(i - lag, i - lag - c);
        return sum;
    }
};

static const ladder *ladder_of(const pu_op *op) { return (const ladder *)op->data; }

static pu_status ladder_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add_it, pu_real *work)
{
    const ladder *l = ladder_of(op);
    (void)work;
    for (pu_int j = 0; j < k; j++)
        for (pu_int i = 0; i < l->n; i++) {
            double sum = 0;
            for (pu_int lag = -3; lag <= 3; lag++)
                if (i - lag >= 0 && i - lag < l->n)
                    sum += (lag < 0 ? l->product(i - lag, -lag, false) : l->product(i, lag, false)) * (double)X.at[j * X.ld + i - lag];
            const pu_real y = (pu_real)((double)l->theta * sum);
            Y.at[j * Y.ld + i] = add_it ? Y.at[j * Y.ld + i] + y : y;
        }
    return PU_OK;
}

static pu_status ladder_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const ladder *l = ladder_of(op);
    (void)work;
    for (pu_int j = 0; j < k; j++)
        for (pu_int i = 0; i < l->n; i++) {
            double sum = 0;
            for (pu_int a = 0; a <= 3 && a <= i; a++) sum += l->entry(i, a) * (double)E.at[j * E.ld + i - a];
            Y.at[j * Y.ld + i] = (pu_real)(sqrt((double)l->theta) * sum);
        }
    return PU_OK;
}

static pu_status ladder_band_add(const pu_op *op, pu_int width, double *B, pu_real *)
{
    const ladder *l = ladder_of(op);
    for (pu_int i = 0; i < l->n; i++)
        for (pu_int j = 0; j <= 3 && j <= i; j++) B[i * (width + 1) + j] += (double)l->theta * l->product(i, j, false);
    return PU_OK;
}

static pu_status ladder_band_grad(const pu_op *op, pu_int width, const double *S, double weight, pu_real *grad, pu_real *)
{
    const ladder *l = ladder_of(op);
    double sum = 0;
    for (pu_int i = 0; i < l->n; i++)
        for (pu_int j = 0; j <= 3 && j <= i; j++) sum += (j ? 2 : 1) * l->product(i, j, false) * S[i * (width + 1) + j];
    grad[0] += (pu_real)(weight * sum);
    return PU_OK;
}

static pu_status ladder_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad, pu_real *work)
{
    const ladder *l = ladder_of(op);
    double sum = 0;
    (void)work;
    for (pu_int c = 0; c < k; c++)
        for (pu_int i = 0; i < l->n; i++)
            for (pu_int j = 0; j <= 3 && j <= i; j++) {
                const pu_real *p = P.at + c * P.ld, *q = Q.at + c * Q.ld;
                sum += (double)weight[c] * l->product(i, j, false) *
                       (j ? (double)p[i] * (double)q[i - j] + (double)q[i] * (double)p[i - j] : (double)p[i] * (double)q[i]);
            }
    grad[0] += (pu_real)sum;
    return PU_OK;
}

static pu_op ladder_op(const ladder *l)
{
    pu_op op;
    memset(&op, 0, sizeof op);
    op.rows = op.cols = l->n, op.params = 1, op.data = l, op.band = 3;
    op.apply = op.apply_t = ladder_apply, op.grad = ladder_grad, op.sample = ladder_sample;
    op.band_add = ladder_band_add, op.band_grad = ladder_band_grad;
    return op;
}

static void run_ladder(pu_int n, int whole)
{
    ladder l;
    l.n = n, l.theta = PU_R(1.5), l.L = normal(4 * n);
    subject t = banded(whole ? "user's" : "user's, no draws, no parameters", ladder_op(&l));
    if (!whole) t.op.sample = NULL, t.op.params = 0, t.op.grad = NULL, t.op.band_grad = NULL;
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = 0; j <= 3 && j <= i; j++) {
            t.factor.add(i, i - j, sqrt(1.5) * l.entry(i, j)), t.size.add(i, i - j, 1.5 * l.product(i, j, true));
            if (j) t.size.add(i - j, i, 1.5 * l.product(i, j, true));
        }
    run_side(t);
}

static void run_banded(pu_int n)
{
    for (pu_int order : {0, 1, 2, 5, 16})
        if (order <= n && (n <= 1000 || order < 16)) run_ar(n, order, 0);
    for (pu_int S = 1; S <= 4; S++) {
        const pu_int steps = n / S;
        if (n > 1000 && S != 2) continue;
        for (pu_ssm_start start : {PU_SSM_ZERO, PU_SSM_STATIONARY, PU_SSM_GIVEN})
            if (steps > 0 && (n < 1000 || start == PU_SSM_STATIONARY)) run_ssm(steps, S, start);
    }
    for (int kind = 0; kind < 3; kind++) {
        const reals a = positive(n);
        run_side(diagonal_subject(n, kind, a, 0));
    }
    run_ladder(n, 1);
    if (n < 1000) run_ladder(n, 0);
}

/* ------------------------------------------------------------------------------------------------
   >>dense
   ------------------------------------------------------------------------------------------------ */

static void dense_size(subject &t, const pu_real *a)
{
    t.size.rows = t.op.rows, t.size.cols = t.op.cols;
    for (pu_int i = 0; i < t.op.rows; i++)
        for (pu_int j = 0; j < t.op.cols; j++) t.size.add(i, j, (double)a[i * t.op.cols + j]);
}

/* Products of random signs: partial sums are of the order of the root of their number, and so is what they round. */
static subject dense_subject(const char *name, const pu_op &op, int slot)
{
    subject t;
    t.name = name, t.op = op, t.slot = slot, t.skips = 0, t.unit = 16, t.grad_unit = 24;
    dense_size(t, (const pu_real *)op.data);
    return t;
}

static void run_dense(pu_int rows, pu_int cols)
{
    const reals a = normal(rows * cols);
    subject t = dense_subject("dense", pu_op_dense(rows, cols, a.data()), 1);
    t.grad_size = [=](const mat &P, const mat &Q, const reals &weight) {
        doubles size((size_t)(rows * cols), 0);
        for (pu_int j = 0; j < P.k; j++)
            for (pu_int i = 0; i < rows; i++)
                for (pu_int d = 0; d < cols; d++) size[(size_t)(i * cols + d)] += fabs((double)weight[(size_t)j]) * P.size(i, j) * Q.size(d, j);
        return size;
    };
    run_side(t);
}

static void run_spd(pu_int n)
{
    const pu_real *made = tc_random_spd(++next_seed, n);
    const reals a(made, made + n * n); /* what came from tc_ goes with the next test */
    reals factor((size_t)(n * n));
    if (pu_spd_factor(n, a.data(), factor.data(), NULL) != PU_OK) exit(2);
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = i + 1; j < n; j++) factor[(size_t)(i * n + j)] = PU_R(NAN); /* nobody reads these */
    subject t = dense_subject("spd", pu_op_spd(n, a.data(), factor.data()), 0);
    t.factor.rows = t.factor.cols = n;
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = 0; j <= i; j++) t.factor.add(i, j, (double)factor[(size_t)(i * n + j)]);
    t.grad_size = [=](const mat &P, const mat &Q, const reals &weight) {
        doubles size((size_t)(n * n), 0);
        for (pu_int j = 0; j < P.k; j++)
            for (pu_int i = 0; i < n; i++)
                for (pu_int d = 0; d < n; d++)
                    size[(size_t)(i * n + d)] += fabs((double)weight[(size_t)j]) * (P.size(i, j) * Q.size(d, j) + Q.size(i, j) * P.size(d, j)) / 2;
        return size;
    };
    run_side(t);
    t.name = "spd, no factor", t.op = pu_op_spd(n, a.data(), NULL);
    if (!t.op.sample) run_side(t, 2, 1, ONE_ORDER);
}

/* Some rows for each datum. Rows that are not there hold NaN in what is read, and are zero in what is written. */
TEST dense_rows(pu_int M, pu_int cols, pu_int n, pu_int each, pu_int count, int orders)
{
    const pu_int k = each * count;
    const lists l = ragged(M, n, count);
    const reals a = normal(M * cols), weight = normal(k);
    const pu_op op = pu_op_dense(M, cols, a.data());
    const mat x = normal(cols, k, 3), y = normal(n, k, 2), xt = ragged_normal(l, each, 1), yt = normal(cols, k, 0), Q = normal(cols, k, 2);
    subject t = dense_subject("dense", op, 1);
    outputs host, device;
    tc_set_case("%ld x %ld, %ld rows, %ld columns of %ld data", (long)M, (long)cols, (long)n, (long)each, (long)count);
    CHECK(both(count, orders,
               [&](world &w, outputs &o) {
                   const pu_side full = side_of(w, 1, &op);
                   const pu_op &side = full.op;
                   if (w.status) return;
                   pu_real *work = work_for(w, side, k), *grad = w.put(reals((size_t)(M * cols), PU_R(0.25)));
                   const pu_block X = w.put(x), XT = w.put(xt), QQ = w.put(Q);
                   const pu_real *W = w.put(weight);
                   const pu_int *rows = w.put(l.all);
                   for (int add_it = 0; add_it <= 1; add_it++) {
                       const pu_block Y = w.put(y), YT = w.put(yt);
                       for (slice c : w.slices(k)) {
                           const pu_int length = list_length(w, l, c.d);
                           const pu_int *some = list_of(w, l, rows, c.d);
                           for (pu_int j = c.first; j < c.first + c.k && !w.device && !add_it; j++)
                               for (pu_int i = 0; i < n; i++) Y.at[j * Y.ld + i] = PU_R(0);
                           w.note(side.apply_rows(&side, length, some, c.k, c.of(X), c.of(Y), add_it, work));
                           w.note(side.apply_rows_t(&side, length, some, c.k, c.of(XT), c.of(YT), add_it, work));
                           if (!add_it && (w.device || length > 0))
                               w.note(side.grad_rows(&side, length, some, c.k, c.of(XT), c.of(QQ), W + c.first, grad, work));
                       }
                       add(o, add_it ? "apply, add" : "apply", w.get(Y, y)), add(o, add_it ? "apply_t, add" : "apply_t", w.get(YT, yt));
                   }
                   add(o, "grad", w.get(grad, (size_t)(M * cols)));
               },
               host, device));
    auto there = [&](pu_int i, pu_int j) { return i < (pu_int)l.rows[(size_t)(j / each)].size(); };
    auto phi = [&](pu_int i, pu_int j, pu_int d) { return fabs((double)a[(size_t)(l.rows[(size_t)(j / each)][(size_t)i] * cols + d)]); };
    auto forth = [&](pu_int i, pu_int j) {
        double sum = 0;
        for (pu_int d = 0; d < cols && there(i, j); d++) sum += phi(i, j, d) * x.size(d, j);
        return sum;
    };
    auto back = [&](pu_int d, pu_int j) {
        double sum = 0;
        for (pu_int i = 0; there(i, j); i++) sum += phi(i, j, d) * xt.size(i, j);
        return sum;
    };
    CHECK(near(device, host, "apply", y, [&](pu_int i, pu_int j) { return t.unit * eps * forth(i, j); }));
    CHECK(near(device, host, "apply, add", y, [&](pu_int i, pu_int j) { return t.unit * eps * (forth(i, j) + (there(i, j) ? y.size(i, j) : 0)); }));
    CHECK(near(device, host, "apply_t", yt, [&](pu_int d, pu_int j) { return t.unit * eps * back(d, j); }));
    CHECK(near(device, host, "apply_t, add", yt, [&](pu_int d, pu_int j) { return t.unit * eps * (back(d, j) + yt.size(d, j)); }));
    doubles size((size_t)(M * cols), 0);
    for (pu_int j = 0; j < k; j++)
        for (pu_int i = 0; there(i, j); i++)
            for (pu_int d = 0; d < cols; d++)
                size[(size_t)(l.rows[(size_t)(j / each)][(size_t)i] * cols + d)] += fabs((double)weight[(size_t)j]) * xt.size(i, j) * Q.size(d, j);
    CHECK(near(device, host, "grad", [&](pu_int i) { return size[(size_t)i] > 0 ? t.grad_unit * eps * (0.25 + size[(size_t)i]) : -1; }));
    PASS();
}

/* More data than a grid has blocks in its second dimension. apply_rows, with its many shuffles, takes a minute: only when asked for by
   PU_TEST_LONG in the environment. */
TEST dense_rows_many(pu_int count, int forth)
{
    const pu_real a[2] = {PU_R(3), PU_R(5)};
    const pu_op op = pu_op_dense(2, 1, a);
    ints all((size_t)(2 * count + 3));
    reals x((size_t)count), weight((size_t)count, PU_R(1));
    double want[2] = {0, 0};
    outputs out;
    tc_set_case("%ld data", (long)count);
    for (pu_int d = 0; d < count; d++) all[(size_t)d] = d % 3 == 0, x[(size_t)d] = (pu_real)(d % 7), want[d % 3 == 0] += (double)((d % 7) * (d % 7));
    pu__list_places(2, count, all.data());
    CHECK(on_device(count, ONE_ORDER,
                    [&](world &w, outputs &o) {
                        const pu_side full = side_of(w, 1, &op);
                   const pu_op &side = full.op;
                        pu_real *y = w.put(guards(count)), *yt = w.put(guards(count)), *grad = w.put(reals(2, PU_R(0)));
                        const pu_int *rows = w.put(all);
                        const pu_block X = tc_block(w.put(x), 1);
                        if (forth) w.note(side.apply_rows(&side, 1, rows, count, X, tc_block(y, 1), 0, NULL));
                        w.note(side.apply_rows_t(&side, 1, rows, count, X, tc_block(yt, 1), 0, NULL));
                        w.note(side.grad_rows(&side, 1, rows, count, X, X, w.put(weight), grad, NULL));
                        add(o, "apply", w.get(y, (size_t)count)), add(o, "apply_t", w.get(yt, (size_t)count)), add(o, "grad", w.get(grad, 2));
                    },
                    out));
    for (pu_int d = 0; d < count; d++) {
        const double y = (d % 3 == 0 ? 5 : 3) * (double)(d % 7);
        if (forth) TC_CLOSE(find(out, "apply")->v[(size_t)d], y, 0);
        TC_CLOSE(find(out, "apply_t")->v[(size_t)d], y, 0);
    }
    for (int m = 0; m < 2; m++) TC_CLOSE(find(out, "grad")->v[(size_t)m], want[m], 0); /* whole numbers below 2^24 */
    PASS();
}

static void run_dense_all(void)
{
    for (pu_int n : {1, 31, 33, 130}) {
        if (small_only && n != 33) continue;
        run_dense(n, 1), run_dense(1, n), run_dense(n, 33), run_dense(7, n), run_spd(n);
        for (pu_int count : {1, 2, 3, 7}) {
            if (small_only ? count != 3 : n > 33 && count > 2) continue;
            RUN_TESTp(dense_rows, 2 * n + 1, 33, n, 3, count, THREE_ORDERS);
            RUN_TESTp(dense_rows, n, n, (n + 1) / 2, count == 3 ? 17 : 8, count, count == 1 ? ALL_ORDERS : THREE_ORDERS);
        }
    }
    if (small_only) return;
    RUN_TESTp(dense_rows, 40, 300, 9, 40, 1, THREE_ORDERS);
    RUN_TESTp(dense_rows, 1000, 5, 400, 1, 3, THREE_ORDERS);
    RUN_TESTp(dense_rows, 50, 257, 0, 2, 2, THREE_ORDERS); /* nothing was observed */
    RUN_TESTp(dense_rows_many, PU__CUDA_GRID + 40, getenv("PU_TEST_LONG") != NULL);
}

/* ------------------------------------------------------------------------------------------------
   >>sparse
   ------------------------------------------------------------------------------------------------ */

static void run_csr(pu_int rows, pu_int cols)
{
    ints start(1, 0), index;
    for (pu_int i = 0; i < rows; i++) { /* up to 9 entries; some rows have none */
        const pu_int want = (pu_int)(tc_hash(++next_seed) % 10);
        for (pu_int j = (pu_int)(tc_hash(++next_seed) % 7), l = 0; j < cols && l < want; l++, j += 1 + (pu_int)(tc_hash(++next_seed) % 5)) index.push_back(j);
        start.push_back((pu_int)index.size());
    }
    const reals value = normal((pu_int)index.size());
    const pu_csr a = {rows, cols, start.data(), index.data(), value.data()};
    subject t;
    t.name = "CSR", t.op = pu_op_csr(&a), t.slot = 1, t.skips = 1, t.unit = 24, t.grad_unit = 24; /* columns may be full */
    t.size.rows = rows, t.size.cols = cols;
    ints row_of;
    for (pu_int i = 0; i < rows; i++)
        for (pu_int s = start[(size_t)i]; s < start[(size_t)i + 1]; s++) t.size.add(i, index[(size_t)s], (double)value[(size_t)s]), row_of.push_back(i);
    t.grad_size = [&](const mat &P, const mat &Q, const reals &weight) {
        doubles size(index.size(), 0);
        for (pu_int j = 0; j < P.k; j++)
            for (size_t s = 0; s < index.size(); s++) size[s] += fabs((double)weight[(size_t)j]) * P.size(row_of[s], j) * Q.size(index[s], j);
        return size;
    };
    if (index.empty()) return;
    run_side(t);
}

static void run_readout(pu_int steps, pu_int S)
{
    const reals c = normal(S);
    subject t;
    t.name = "readout", t.op = pu_op_readout(steps, S, c.data()), t.slot = 1, t.skips = 1, t.unit = (double)(S + 4), t.grad_unit = 48;
    t.size.rows = steps, t.size.cols = S * steps;
    for (pu_int i = 0; i < steps; i++)
        for (pu_int s = 0; s < S; s++) t.size.add(i, i * S + s, (double)c[(size_t)s]);
    t.grad_size = [=](const mat &P, const mat &Q, const reals &weight) {
        doubles size((size_t)S, 0);
        for (pu_int j = 0; j < P.k; j++)
            for (pu_int i = 0; i < steps; i++)
                for (pu_int s = 0; s < S; s++) size[(size_t)s] += fabs((double)weight[(size_t)j]) * P.size(i, j) * Q.size(i * S + s, j);
        return size;
    };
    run_side(t);
}

static void run_sparse(pu_int n)
{
    run_csr(n, n), run_csr(n, 17), run_csr(3, n);
    run_readout(n, 1);
    if (n < 4000) run_readout(n, 3);
    for (int kind = 0; kind < 3; kind++) {
        const reals a = positive(n);
        subject t = diagonal_subject(n, kind, a, 1);
        t.op.sample = NULL; /* Phi needs none */
        run_side(t);
    }
}

/* ------------------------------------------------------------------------------------------------
   >>fourier   a transform is unitary, and its rounding errors, of all entries together, are about eps log2(n) of the vectors that
   share it: columns are compared by the norm of their difference
   ------------------------------------------------------------------------------------------------ */

static int near_norm(const outputs &device, const outputs &host, const char *name, const mat &m, double tol)
{
    const reals &d = find(device, name)->v, &h = find(host, name)->v;
    for (pu_int j = 0; j < m.k; j++) {
        double sum = 0;
        for (pu_int i = 0; i < m.ld; i++) {
            const size_t at = (size_t)(j * m.ld + i);
            if (i < m.n) sum += pow((double)d[at] - (double)h[at], 2);
            else if (!bits(d[at], guard_value())) return differ(name, i, j, d[at], guard_value(), -1);
        }
        if (!(sqrt(sum) <= tol)) {
            snprintf(pu_test_message, sizeof pu_test_message, "%s: column %ld differs by %.3g, allowed %.3g", name, (long)j, sqrt(sum), tol);
            return 0;
        }
    }
    return 1;
}

static double largest_norm(const mat &m)
{
    double most = 0;
    for (pu_int j = 0; j < m.k; j++) {
        double sum = 0;
        for (pu_int i = 0; i < m.n; i++) sum += pow(m.at(i, j), 2);
        most = sum > most ? sum : most;
    }
    return sqrt(most);
}

TEST fourier(pu_int rows, pu_int cols, pu_int each, pu_int count, int orders)
{
    const pu_int n = rows * cols, k = each * count;
    const mat x = normal(n, k, 3), y = normal(2 * n, k, 2), xt = normal(2 * n, k, 0), yt = normal(n, k, 4);
    reals equal = positive(2 * n * count), unequal = positive(2 * n * count);
    pu_fourier f;
    size_t bytes = 0;
    outputs host, device;
    tc_set_case("%ld x %ld, %ld columns of %ld data", (long)rows, (long)cols, (long)each, (long)count);
    TC_STATUS(pu_fourier_bytes(rows, cols, &bytes), PU_OK);
    TC_STATUS(pu_fourier_init(&f, rows, cols, tc_bytes(bytes), bytes), PU_OK);
    for (pu_int d = 0; d < count; d++)
        for (pu_int i = 0; i < n; i++) {
            const size_t at = (size_t)(2 * n * d + i);
            if (i % 3 == 0) equal[at] = unequal[at] = PU_R(0); /* frequencies that were not sampled */
            equal[at + (size_t)n] = equal[at];
        }
    const pu_op op = pu_op_fourier(&f);
    CHECK(both(count, orders,
               [&](world &w, outputs &o) {
                   const pu_side full = side_of(w, 1, &op);
                   const pu_op &side = full.op;
                   if (w.status) return;
                   pu_real *work = work_for(w, side, k);
                   const pu_block X = w.put(x), XT = w.put(xt);
                   const pu_real *weights[2] = {w.put(equal), w.put(unequal)};
                   for (int add_it = 0; add_it <= 1; add_it++) {
                       const pu_block Y = w.put(y), YT = w.put(yt);
                       w.note(side.apply(&side, k, X, Y, add_it, work));
                       w.note(side.apply_t(&side, k, XT, YT, add_it, work));
                       add(o, add_it ? "apply, add" : "apply", w.get(Y, y)), add(o, add_it ? "apply_t, add" : "apply_t", w.get(YT, yt));
                       for (int kind = 0; kind < 2; kind++) {
                           const pu_block G = w.put(yt);
                           for (slice c : w.slices(k)) w.note(full.gram(&side, weights[kind] + c.d * 2 * n, c.k, c.of(X), c.of(G), add_it, work));
                           add(o, kind ? add_it ? "gram 2, add" : "gram 2" : add_it ? "gram 1, add" : "gram 1", w.get(G, yt));
                       }
                   }
               },
               host, device));
    double most = 0;
    for (pu_real v : unequal) most = (double)v > most ? (double)v : most;
    for (pu_real v : equal) most = (double)v > most ? (double)v : most;
    /* two columns share a transform, two sides are compared; primes go through a convolution of twice the length, and more */
    const double unit = 4 * eps * log2(2.0 * (double)n), add_unit = eps * largest_norm(y);
    CHECK(near_norm(device, host, "apply", y, unit * largest_norm(x)));
    CHECK(near_norm(device, host, "apply, add", y, unit * largest_norm(x) + add_unit));
    CHECK(near_norm(device, host, "apply_t", yt, unit * largest_norm(xt)));
    CHECK(near_norm(device, host, "apply_t, add", yt, unit * largest_norm(xt) + add_unit));
    for (const char *name : {"gram 1", "gram 2", "gram 1, add", "gram 2, add"})
        CHECK(near_norm(device, host, name, yt, 2 * unit * most * largest_norm(x) + add_unit));
    pu_fourier_free(&f);
    PASS();
}

static void run_fourier(void)
{
    static const pu_int images[][2] = {{1, 1}, {1, 31}, {33, 1}, {1, 2}, {7, 9}, {16, 16}, {5, 4}, {1, 1000}, {17, 241}};
    for (const pu_int *image : images) {
        if (small_only && image[0] * image[1] > 64) continue;
        if (small_only) {
            RUN_TESTp(fourier, image[0], image[1], 3, 2, ONE_ORDER);
            continue;
        }
        RUN_TESTp(fourier, image[0], image[1], 1, 1, ALL_ORDERS);
        RUN_TESTp(fourier, image[0], image[1], 4, 1, THREE_ORDERS);
        RUN_TESTp(fourier, image[0], image[1], 3, 2, THREE_ORDERS); /* the second pair: a column of each datum */
        RUN_TESTp(fourier, image[0], image[1], 1, 7, THREE_ORDERS);
        RUN_TESTp(fourier, image[0], image[1], 5, 3, THREE_ORDERS);
    }
    if (small_only) return;
    RUN_TESTp(fourier, 8, 8, 39, 1, THREE_ORDERS);
    for (pu_int n = 2; n < 14; n++) RUN_TESTp(fourier, n, 3, 2, 1, ONE_ORDER); /* more kinds than there are places for plans */
    RUN_TESTp(fourier, 2, 3, 2, 1, ONE_ORDER);
}

/* ------------------------------------------------------------------------------------------------
   >>refused
   ------------------------------------------------------------------------------------------------ */

static pu_status asked(int slot, const pu_op *op)
{
    size_t bytes = 0;
    pu_side out;
    return cuda.backend.side(cuda.backend.user, slot, op, NULL, &bytes, &out);
}

TEST refused(void)
{
    const pu_int n = 6;
    const reals d = positive(n), u = normal(2 * n), plain = normal(n * n);
    const pu_low_rank low = {n, 2, d.data(), u.data(), NULL};
    const pu_op diagonal = pu_op_diagonal(n, d.data()), dense = pu_op_dense(n, n, plain.data());
    pu_ar ar;
    ladder l;
    l.n = n, l.theta = PU_R(1), l.L = normal(4 * n);
    const pu_real gamma = PU_R(0.5);
    tc_set_case("refused");
    TC_STATUS(pu_ar_set(&ar, n, 1, &gamma, PU_R(1), NULL), PU_OK);
    const pu_op none[] = {pu_op_product(&diagonal, &dense), pu_op_sum(&dense, &diagonal), pu_op_kronecker(&diagonal, &dense),
                          pu_op_low_rank(&low),             pu_op_toeplitz(n, d.data(), NULL), pu_op_circulant(n, d.data(), NULL)};
    for (const pu_op &op : none)
        for (int slot = 0; slot < 2; slot++) TC_STATUS(asked(slot, &op), PU_E_UNSUPPORTED);
    const pu_op series = pu_op_ar(&ar); /* as Phi it has no rows to give */
    TC_STATUS(asked(0, &series), PU_OK);
    TC_STATUS(asked(1, &series), PU_E_UNSUPPORTED);
    pu_op user = ladder_op(&l);
    TC_STATUS(asked(0, &user), PU_OK);
    TC_STATUS(asked(1, &user), PU_E_UNSUPPORTED);
    user.noise = 2 * n; /* draws from more normals than there are rows have no banded factor */
    TC_STATUS(asked(0, &user), PU_E_UNSUPPORTED);
    user.noise = 0, user.band_grad = NULL; /* parameters without a way to them */
    TC_STATUS(asked(0, &user), PU_E_UNSUPPORTED);
    user.band_add = NULL;
    TC_STATUS(asked(0, &user), PU_E_UNSUPPORTED);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
   >>solve   what is left: kernels of the user's functions, and of pu_cuda_solve
   ------------------------------------------------------------------------------------------------ */

struct scaled_entry { /* y_ij = (i + 1) x_ij */
    pu_block x, y;
    void operator()(pu_int i, pu_int j) const { y.at[j * y.ld + i] = (pu_real)(i + 1) * x.at[j * x.ld + i]; }
};

struct squared_entry {
    pu_block x;
    pu_real operator()(pu_int i, pu_int j) const { return x.at[j * x.ld + i] * x.at[j * x.ld + i]; }
};

TEST user_kernels(shape s)
{
    const pu_int n = s.n, k = s.k();
    const mat x = normal(n, k, 3), y = normal(n, k, 1);
    const reals weight = normal(k);
    outputs out;
    long double want = 0.5L; /* added up one by one */
    double size = 0.5;
    name_case(s, "user's kernels");
    CHECK(on_device(s.count, s.orders,
                    [&](world &w, outputs &o) {
                        const pu_block X = w.put(x), Y = w.put(y);
                        pu_real *sum = w.put(reals(1, PU_R(0.5)));
                        w.note(pu_cuda_each(&cuda, n, k, scaled_entry{X, Y}));
                        w.note(pu_cuda_sums(&cuda, n, k, squared_entry{X}, w.put(weight), sum));
                        add(o, "y", w.get(Y, y)), add(o, "sum", w.get(sum, 1));
                    },
                    out));
    const reals &got = find(out, "y")->v;
    for (pu_int j = 0; j < k; j++) {
        for (pu_int i = 0; i < n; i++) {
            const double term = (double)weight[(size_t)j] * x.at(i, j) * x.at(i, j);
            TC_ASSERT(bits(got[(size_t)(j * y.ld + i)], (pu_real)(i + 1) * x.v[(size_t)(j * x.ld + i)]));
            want += term, size += fabs(term);
        }
        TC_ASSERT(bits(got[(size_t)(j * y.ld + n)], guard_value()));
    }
    TC_CLOSE(find(out, "sum")->v[0], want, sum_unit() * size);
    PASS();
}

/* The loop is the host's own; few steps, so that rounding has no time to grow: A is a diagonal plus a ladder, well conditioned. */
TEST solve(pu_solver solver, int adjoint)
{
    const pu_int n = 70, k = 3;
    const mat u = normal(n, k, 2);
    const reals m = positive(n), weight = positive(k);
    pu_solve_options o;
    ladder l;
    outputs host, device;
    tc_set_case("solver %d, adjoint %d", (int)solver, adjoint);
    l.n = n, l.theta = PU_R(0.1), l.L = normal(4 * n);
    for (pu_int i = 0; i < n; i++) l.L[(size_t)(4 * i)] = PU_R(6);
    memset(&o, 0, sizeof o);
    o.iterations = 5, o.solver = solver, o.adjoint = (pu_adjoint)adjoint;
    const pu_op op = ladder_op(&l);
    CHECK(both(1, solver == PU_PCG && adjoint == PU_ADJOINT_FULL ? ALL_ORDERS : THREE_ORDERS,
               [&](world &w, outputs &out) {
                   pu_solve_options here = o;
                   reals grad(1, PU_R(0));
                   const pu_side full = side_of(w, 0, &op);
                   const pu_op &A = full.op;
                   const pu_block U = w.put(u), X = w.put(guarded(n, k, 3));
                   here.precond = w.put_if(solver == PU_PCG, m);
                   if (w.device) {
                       size_t bytes = 0;
                       w.note(pu_cuda_solve_bytes(&cuda, &A, k, &here, 1, &bytes, NULL));
                       pu_real *sums = w.put(reals((size_t)A.params, PU_R(0)));
                       int32_t *stop = w.put(std::vector<int32_t>((size_t)k, 77));
                       w.note(pu_cuda_solve(&cuda, &A, k, U.at, U.ld, X.at, X.ld, NULL, w.put(weight), &here, w.take(bytes), bytes, sums, stop, NULL));
                       const reals made = w.get(sums, (size_t)A.params);
                       w.note(full.grad_from_sums(&full, made.data(), grad.data()));
                       for (int32_t c : w.get(stop, (size_t)k))
                           if (c != 0) w.note(PU_E_SIZE);
                   } else {
                       pu_workspace ws = tc_workspace();
                       w.note(tc_pu_solve(&A, k, U.at, U.ld, X.at, X.ld, NULL, weight.data(), &here, NULL, &ws, grad.data(), NULL, NULL, NULL));
                   }
                   add(out, "x", w.get(X, guarded(n, k, 3))), add(out, "grad", grad);
               },
               host, device));
    const double norm = largest_norm(u);
    /* |A^-1| is below 1, its condition about 3: five steps, each of which rounds a few times and passes it on */
    CHECK(near(device, host, "x", guarded(n, k, 3), [&](pu_int, pu_int) { return 64 * eps * norm; }));
    CHECK(near(device, host, "grad", [&](pu_int) { return 256 * eps * norm * norm; }));
    PASS();
}

/* ------------------------------------------------------------------------------------------------
   >>main
   ------------------------------------------------------------------------------------------------ */

static void suffix(const shape &s)
{
    static char text[64]; /* greatest keeps the pointer */
    snprintf(text, sizeof text, "n %ld, %ld x %ld", (long)s.n, (long)s.each, (long)s.count);
    greatest_set_test_suffix(text);
}

#define RUN_SHAPE(test, ...)            \
    do {                                \
        suffix(s);                      \
        RUN_TESTp(test, s, __VA_ARGS__); \
    } while (0)
#define RUN_SHAPE_ONLY(test)  \
    do {                      \
        suffix(s);            \
        RUN_TESTp(test, s);   \
    } while (0)

static void run_vectors(shape s)
{
    for (int l = 0; l <= 1; l++) {
        RUN_SHAPE(dot, l);
        RUN_SHAPE(advance, l, 0);
        RUN_SHAPE(advance, l, 1);
        RUN_SHAPE(retreat, l);
        RUN_SHAPE(sum_dot, l);
        RUN_SHAPE(normals, l);
        RUN_SHAPE(row_terms, l);
        for (int q = 0; q <= 1; q++) {
            RUN_SHAPE(row_dot, l, 0, q);
            RUN_SHAPE(row_dot, l, 1, q);
            RUN_SHAPE(row_dot_lists, l, q);
        }
    }
    RUN_SHAPE_ONLY(combine_all);
    RUN_SHAPE_ONLY(combine_broadcast);
    RUN_SHAPE_ONLY(unwind_all);
    RUN_SHAPE_ONLY(user_kernels);
}

/* More than one tile a part: beyond 64 parts of 4,096 entries. */
static void run_long(void)
{
    const shape s = {300001, 1, 2, THREE_ORDERS};
    const unwind_case u = {0, 0, 1, 1};
    RUN_SHAPE(dot, 1);
    RUN_SHAPE(advance, 1, 1);
    RUN_SHAPE(sum_dot, 1);
    RUN_SHAPE(unwind, u);
    RUN_SHAPE(normals, 0);
    RUN_SHAPE_ONLY(user_kernels);
    run_ar(s.n, 2, 2);
}

/* More columns than are summed up at a time, of one datum or of several. */
static void run_wide_one(shape s)
{
    const unwind_case kept = {1, 1, 0, 0};
    const reals a = positive(s.n);
    RUN_SHAPE(dot, 1);
    RUN_SHAPE(unwind, kept);
    RUN_SHAPE_ONLY(user_kernels);
    run_side(diagonal_subject(s.n, 0, a, 0), s.each, s.count, ONE_ORDER);
}

static void run_wide_several(shape s)
{
    const unwind_case made = {0, 0, 1, 0};
    const reals a = positive(s.n);
    RUN_SHAPE(dot, 1);
    RUN_SHAPE(advance, 1, 1);
    RUN_SHAPE(sum_dot, 1);
    RUN_SHAPE(unwind, made);
    run_side(diagonal_subject(s.n, 0, a, 0), s.each, s.count, ONE_ORDER);
}

static void run_wide(void)
{
    const shape s = {1, 65535 + 30, 1, ONE_ORDER}; /* more columns than a grid has blocks in its second dimension */
    run_wide_one(shape{3, PU__CUDA_COLUMNS + 4, 1, ONE_ORDER});
    run_wide_several(shape{3, PU__CUDA_COLUMNS / 3 + 1, 3, ONE_ORDER});
    RUN_SHAPE_ONLY(combine_broadcast);
}

static void run_long_sums(void)
{
    RUN_TESTp(sums_keep_digits, 90001, 3);
    RUN_TESTp(sums_keep_digits, 7, 20011);
    RUN_TESTp(sums_keep_digits, 600, 100);
}

static void run_copies(void)
{
    const size_t half = (size_t)4 << 20;
    for (size_t bytes : {(size_t)0, (size_t)1, (size_t)17, half / 4, half / 4 + 1, half - 16, half + 1, 2 * half + 5, 4 * half + 3})
        RUN_TESTp(read_and_write, bytes);
    RUN_TEST(many_writes);
    RUN_TESTp(turns, 33);
    RUN_TESTp(turns, 100000);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    static const pu_int sizes[] = {0, 1, 31, 33, 1000, 4097};
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    small_only = getenv("PU_TEST_SMALL") != NULL;
    if (pu_cuda_open(&cuda, NULL, NULL) != PU_OK) return puts("cannot open the device"), 1;
    for (pu_int n : sizes) {
        if (small_only && n != 1 && n != 33) continue;
        const int most = n <= 33 ? ALL_ORDERS : THREE_ORDERS;
        for (shape s : {shape{n, 1, 1, most}, shape{n, 5, 1, THREE_ORDERS}, shape{n, 3, 2, THREE_ORDERS}, shape{n, 1, 7, THREE_ORDERS},
                        shape{n, 4, 3, THREE_ORDERS}})
            if (small_only ? s.each == 3 : (n != 31 && n <= 1000) || s.each < 4) run_vectors(s);
        if (n > 0) run_banded(n), run_sparse(n);
    }
    run_dense_all();
    run_fourier();
    RUN_TESTp(stages, 1);
    if (!small_only) RUN_TESTp(stages, 40);
    RUN_TEST(refused);
    for (pu_solver solver : {PU_CG, PU_PCG, PU_SD})
        for (int adjoint : {PU_ADJOINT_FULL, PU_ADJOINT_SHORTCUT, PU_ADJOINT_REORTHOGONAL}) RUN_TESTp(solve, solver, adjoint);
    if (!small_only) {
        run_vectors(shape{1000, 40, 1, THREE_ORDERS});
        run_vectors(shape{33, 20, 2, THREE_ORDERS});
        RUN_TESTp(stages, 300);
        run_long();
        run_wide();
        run_long_sums();
        run_copies();
    }
    pu_cuda_close(&cuda);
    if (sim_leaks(stdout)) return puts("device memory was not given back"), 1;
    PU_TEST_MAIN_END();
}
