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
static int small_only; /* PU_TEST_SMALL in the environment: for ThreadSanitizer */

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
    for (int l = 0; l < orders; l++) {
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
        if (l == 0) out = now;
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
                   if (u.kept) v.kept = w.put(kept);
                   v.a = w.put(a), v.be = w.put(be), v.be_before = w.put_if(!u.first, be_before);
                   v.twice_rhobar = w.put(two), v.pib = w.put(pib), v.m = w.put_if(u.with_m, m), v.minv = w.put_if(u.with_m, minv);
                   v.weight = w.put_if(u.with_mbar, weight), v.mbar = mb;
                   for (int sums = 1; sums >= 0; sums--)
                       for (slice c : w.slices(k)) {
                           pu_unwinding p = v;
                           p.d = c.of(v.d), p.before = c.of(v.before), p.xbar = c.of(v.xbar), p.r = c.of(v.r), p.rbar = c.of(v.rbar);
                           p.dbar = c.of(v.dbar), p.qbar = c.of(v.qbar);
                           if (u.kept) p.kept = c.of(v.kept);
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
                for (u.with_mbar = 0; u.with_mbar <= u.with_m; u.with_mbar++) CHECK_CALL(unwind(s, u));
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
                       if (w.device) w.B->turn(w.B->user, l % 2);
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
//SIDES//

/* ------------------------------------------------------------------------------------------------
   >>main
   ------------------------------------------------------------------------------------------------ */

static void suffix(const shape &s)
{
    char text[64];
    snprintf(text, sizeof text, "n %ld, %ld x %ld", (long)s.n, (long)s.each, (long)s.count);
    greatest_set_test_suffix(text);
}

#define RUN(test, s, ...) (suffix(s), greatest_test_run = 0) 
#undef RUN

static void run_vectors(shape s)
{
    for (int l = 0; l <= 1; l++) {
        suffix(s);
        RUN_TESTp(dot, s, l);
        suffix(s);
        RUN_TESTp(advance, s, l, 0);
        suffix(s);
        RUN_TESTp(advance, s, l, 1);
        suffix(s);
        RUN_TESTp(retreat, s, l);
        suffix(s);
        RUN_TESTp(sum_dot, s, l);
        suffix(s);
        RUN_TESTp(normals, s, l);
        suffix(s);
        RUN_TESTp(row_terms, s, l);
        for (int q = 0; q <= 1; q++) {
            suffix(s);
            RUN_TESTp(row_dot, s, l, 0, q);
            suffix(s);
            RUN_TESTp(row_dot, s, l, 1, q);
            suffix(s);
            RUN_TESTp(row_dot_lists, s, l, q);
        }
    }
    suffix(s);
    RUN_TESTp(combine_all, s);
    suffix(s);
    RUN_TESTp(combine_broadcast, s);
    suffix(s);
    RUN_TESTp(unwind_all, s);
}

static void run_copies(void)
{
    const size_t half = (size_t)4 << 20;
    for (size_t bytes : {(size_t)0, (size_t)1, (size_t)17, half / 4, half / 4 + 1, half - 16, half + 1, 2 * half + 5, 4 * half + 3}) RUN_TESTp(read_and_write, bytes);
    RUN_TEST(many_writes);
    RUN_TESTp(turns, 33);
    RUN_TESTp(turns, 200000);
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
        if (small_only && n > 33) continue;
        for (shape s : {shape{n, 1, 1, ALL_ORDERS}, shape{n, 5, 1, THREE_ORDERS}, shape{n, 3, 2, THREE_ORDERS}, shape{n, 1, 7, THREE_ORDERS},
                        shape{n, 4, 3, THREE_ORDERS}})
            run_vectors(s);
    }
    if (!small_only) run_vectors(shape{1000, 40, 1, THREE_ORDERS});
    if (!small_only) run_vectors(shape{33, 20, 2, THREE_ORDERS});
    RUN_TESTp(stages, 1);
    RUN_TESTp(stages, 40);
    if (!small_only) RUN_TESTp(stages, 300);
    if (!small_only) run_copies();
    pu_cuda_close(&cuda);
    if (sim_leaks(stdout)) return puts("device memory was not given back"), 1;
    PU_TEST_MAIN_END();
}
